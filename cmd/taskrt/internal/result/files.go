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

// File is a file to embed in a result.
type File struct{ Path, MIMEType string }

var mimeType = regexp.MustCompile(`^[a-z]+/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$`)

// ParseFile reads PATH[:MIME]. A file whose own name looks like that is taken as the file.
func ParseFile(s string) File {
	if _, err := os.Stat(s); err == nil {
		return File{Path: s}
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && mimeType.MatchString(s[i+1:]) {
		return File{Path: s[:i], MIMEType: s[i+1:]}
	}
	return File{Path: s}
}

// Files is a result with embedded files, after a text if there is one. A file for which there is no room is left out, and said.
func Files(text string, files []File) (json.RawMessage, error) {
	result := callToolResult{Content: []block{}}
	room := int64(MaxBytes - len(text))
	if text != "" {
		result.Content = append(result.Content, block{Type: "text", Text: text})
	}
	for _, f := range files {
		b, taken, err := f.block(room)
		if err != nil {
			return nil, err
		}
		room -= taken
		result.Content = append(result.Content, b)
	}
	return encode(result)
}

// block embeds the file, and says how many bytes of room it takes.
func (f File) block(room int64) (block, int64, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return block{}, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return block{}, 0, err
	}
	if info.IsDir() {
		return block{}, 0, fmt.Errorf("%s is a folder", f.Path)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return block{}, 0, fmt.Errorf("read %s: %w", f.Path, err)
	}
	kind := f.kind(data)
	size := max(info.Size(), int64(len(data)))
	b, taken, err := embed(filepath.Base(f.Path), kind, data)
	if err != nil {
		return block{}, 0, fmt.Errorf("%s: %w", f.Path, err)
	}
	if size > MaxBytes || taken > room {
		left := fmt.Sprintf("%s (%s, %d bytes) is left out: a result may have %d bytes in all.", filepath.Base(f.Path), kind, size, MaxBytes)
		return block{Type: "text", Text: left}, int64(len(left)), nil
	}
	return b, taken, nil
}

func (f File) kind(data []byte) string {
	if f.MIMEType != "" {
		return f.MIMEType
	}
	if kind := mime.TypeByExtension(filepath.Ext(f.Path)); kind != "" {
		return kind
	}
	return http.DetectContentType(data)
}

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
