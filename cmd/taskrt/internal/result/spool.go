package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/mcptask/mcptask/api/report/fit"
)

// Spool takes results. Small ones stay in memory, larger ones become files: there is one sidecar for each task, and it must be small.
type Spool struct {
	// Folder of the files.
	Folder string
	// Limit is the largest result that is taken, in bytes. A larger one is left out, and the result says so.
	Limit int64

	looking sync.Mutex // one large result is looked into at a time
}

// Taken is a result that was taken.
type Taken struct {
	// Result, where it is small; else File.
	Result json.RawMessage
	File   *File
	// Size in bytes of what was handed over, where it was left out; else 0.
	Size int64
	// SHA256 of what was handed over.
	SHA256 string
}

// File is a result in a part of a file.
type File struct {
	Path string `json:"path"`
	// Offset and Bytes say which part.
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
	// SHA256 of that part, in hex.
	SHA256 string `json:"sha256"`
	// IsError says that the result is an error of the tool.
	IsError bool `json:"isError,omitempty"`
}

// filePattern is how the files are named.
const filePattern = "result-*"

// Structured content is enclosed by these.
const (
	structuredHead = `{"content":[],"structuredContent":`
	structuredTail = `}`
)

// Take reads a result: an object with a content array is a CallToolResult, every other one structured content. Bytes that are not UTF-8
// become U+FFFD. The error is in words that follow the name of what was read; what is too large is no error.
func (s *Spool) Take(in io.Reader) (Taken, error) {
	from := newSource(in)
	begin, err := io.ReadAll(io.LimitReader(from.text, fit.MaxInline+1))
	if err != nil {
		return Taken{}, err
	}
	if len(begin) <= fit.MaxInline {
		made, err := FromJSON(begin)
		return Taken{Result: made, SHA256: from.hash()}, err
	}
	copied, whole, err := s.copy(begin, from)
	if err != nil {
		return Taken{}, err
	}
	var made *File
	if whole {
		made, err = s.look(copied)
	}
	if err == nil && made != nil && made.Bytes <= s.Limit {
		return Taken{File: made, SHA256: from.hash()}, nil
	}
	if made != nil {
		copied = made.Path
	}
	if err = errors.Join(err, os.Remove(copied)); err != nil {
		return Taken{}, err
	}
	return s.leftOut(from)
}

// copy copies what is handed over into a file, behind structuredHead, and says whether that is all of it.
func (s *Spool) copy(begin []byte, from *source) (path string, whole bool, err error) {
	file, err := os.CreateTemp(s.Folder, filePattern)
	if err != nil {
		return "", false, err
	}
	room := max(s.Limit-int64(len(begin)), 0)
	_, err = io.Copy(file, io.MultiReader(strings.NewReader(structuredHead), bytes.NewReader(begin)))
	var rest int64
	if err == nil {
		rest, err = io.Copy(file, io.LimitReader(from.text, room+1))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", false, errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), rest <= room, nil
}

// leftOut stands for what is too large. It reads on, to say how large.
func (s *Spool) leftOut(from *source) (Taken, error) {
	size, err := from.size()
	if err != nil {
		return Taken{}, err
	}
	made, err := TooLarge(size, s.Limit)
	return Taken{Result: made, Size: size.Bytes, SHA256: from.hash()}, err
}

// look looks into a copy. It is mapped, not read: the memory that it takes the kernel can have back at any time.
func (s *Spool) look(path string) (*File, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	file, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // a copy that the spool made
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	mapped, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	defer func() { _ = syscall.Munmap(mapped) }() // it is a mapping
	data := mapped[len(structuredHead):]
	whole, err := isCallResult(data)
	if err != nil {
		return nil, err
	}
	if !whole {
		if _, err := file.WriteAt([]byte(structuredTail), info.Size()); err != nil {
			return nil, err
		}
		return &File{Path: path, Bytes: info.Size() + int64(len(structuredTail)), SHA256: hashOf(mapped, []byte(structuredTail))}, nil
	}
	object := bytes.TrimSpace(data)
	fields := members(object)
	isError := string(fields["isError"].of(object)) == "true"
	if again, found := repetition(object, fields); found {
		return s.without(again, object, isError, path)
	}
	offset := int64(len(structuredHead) + skip(data, 0))
	return &File{Path: path, Offset: offset, Bytes: int64(len(object)), SHA256: hashOf(object), IsError: isError}, nil
}

// repetition is the block of a CallToolResult, with the comma that it needs, that only says what the structured content says.
func repetition(object []byte, fields map[string]span) (span, bool) {
	structured, found := fields["structuredContent"]
	if !found {
		return span{}, false
	}
	content := fields["content"]
	blocks := elements(content.of(object))
	for i, at := range blocks {
		block := at.of(content.of(object))
		parts := members(block)
		if len(parts) != 2 || string(parts["type"].of(block)) != `"text"` || !fit.Twice(parts["text"].of(block), structured.of(object)) {
			continue
		}
		switch {
		case i+1 < len(blocks):
			at.to = blocks[i+1].from
		case i > 0:
			at.from = blocks[i-1].to
		}
		return span{content.from + at.from, content.from + at.to}, true
	}
	return span{}, false
}

// without copies an object once more, without a piece of it.
func (s *Spool) without(piece span, object []byte, isError bool, path string) (*File, error) {
	file, err := os.CreateTemp(s.Folder, filePattern)
	if err != nil {
		return nil, err
	}
	before, after := object[:piece.from], object[piece.to:]
	_, err = io.Copy(file, io.MultiReader(bytes.NewReader(before), bytes.NewReader(after)))
	if err = errors.Join(err, file.Close(), os.Remove(path)); err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return &File{Path: file.Name(), Bytes: int64(len(before) + len(after)), SHA256: hashOf(before, after), IsError: isError}, nil
}

func hashOf(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Clear removes the files that a sidecar before this one left, but for those of these results.
func (s *Spool) Clear(but ...*File) error {
	found, err := filepath.Glob(filepath.Join(s.Folder, filePattern))
	for _, path := range found {
		if !slices.ContainsFunc(but, func(f *File) bool { return f != nil && f.Path == path }) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
