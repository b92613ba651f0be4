package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Embedded is a file to embed in a result.
type Embedded struct{ Path, MIMEType string }

var mimeType = regexp.MustCompile(`^[a-z]+/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$`)

// ParseFile reads PATH[:MIME]. A file whose own name looks like that is taken as the file.
func ParseFile(s string) Embedded {
	if _, err := os.Stat(s); err == nil {
		return Embedded{Path: s}
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && mimeType.MatchString(s[i+1:]) {
		return Embedded{Path: s[:i], MIMEType: s[i+1:]}
	}
	return Embedded{Path: s}
}

// Files is a result with embedded files, after a text if there is one, in limit bytes. A file for which there is no room is left out, and
// said; then left is the size in bytes of the text and all files, else 0.
func Files(text string, files []Embedded, limit int64) (made json.RawMessage, left int64, err error) {
	result := callToolResult{Content: []block{}}
	room := limit - int64(len(text))
	if text != "" {
		result.Content = append(result.Content, block{Type: "text", Text: text})
	}
	size, whole := int64(len(text)), true
	for _, f := range files {
		data, has, err := f.read(limit)
		if err != nil {
			return nil, 0, err
		}
		size += has.Bytes
		name, kind := filepath.Base(f.Path), f.kind(data)
		b, takes, err := embed(name, kind, data)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", f.Path, err)
		}
		if has.Bytes > limit || takes > room {
			whole = false
			b = block{Type: "text", Text: fmt.Sprintf("%s (%s, %v) is left out: a result may have %d bytes in all.", name, kind, has, limit)}
			takes = int64(len(b.Text))
		}
		room -= takes
		result.Content = append(result.Content, b)
	}
	if whole {
		size = 0
	}
	made, err = encode(result)
	return made, size, err
}

// read reads as much of the file as there may be room for, and says how large it is.
func (f Embedded) read(limit int64) ([]byte, Size, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, Size{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, Size{}, err
	} else if info.IsDir() {
		return nil, Size{}, fmt.Errorf("%s is a folder", f.Path)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, Size{}, fmt.Errorf("read %s: %w", f.Path, err)
	}
	size, err := Count(data, file)
	if err != nil {
		return nil, Size{}, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return data, size, nil
}

func (f Embedded) kind(data []byte) string {
	if f.MIMEType != "" {
		return f.MIMEType
	}
	if kind := mime.TypeByExtension(filepath.Ext(f.Path)); kind != "" {
		return kind
	}
	return http.DetectContentType(data)
}

// embed embeds a file, and says how many bytes of room it takes.
func embed(name, kind string, data []byte) (block, int64, error) {
	base64Size := int64(len(data))*4/3 + 256
	top, _, ok := strings.Cut(kind, "/")
	switch {
	case !ok:
		return block{}, 0, errors.New("the MIME type must be like image/png")
	case top == "image", top == "audio":
		return block{Type: top, Data: data, MIMEType: kind}, base64Size, nil
	}
	r := &resource{URI: "file:///" + url.PathEscape(name), MIMEType: kind}
	if isText(kind) && utf8.Valid(data) {
		text := string(data)
		r.Text = &text
		encoded, err := json.Marshal(text)
		return block{Type: "resource", Resource: r}, int64(len(encoded)) + 256, err
	}
	r.Blob = data
	return block{Type: "resource", Resource: r}, base64Size, nil
}

func isText(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.TrimSpace(kind)
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		kind == "application/json" || kind == "application/xml" || kind == "application/yaml" || kind == "application/x-ndjson"
}
