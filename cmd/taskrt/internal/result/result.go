// Package result makes MCP results (2026-07-28, server/tools, Tool Result) of what a program hands over.
package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/mcptask/mcptask/api/report/fit"
)

// DefaultBytes is the largest result that is taken where the controller does not say.
const DefaultBytes = 1 << 20

// Limit is the largest result that the tool keeps, which the controller sets on every container.
func Limit(getenv func(string) string) (int64, error) {
	text := getenv("MCPTASK_MAX_RESULT_BYTES")
	if text == "" {
		return DefaultBytes, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 1 {
		return 0, fmt.Errorf("MCPTASK_MAX_RESULT_BYTES must be a number of bytes, not %q", text)
	}
	return limit, nil
}

type callToolResult struct {
	Content           []block         `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
}

// block is one piece of content.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	Data     []byte    `json:"data,omitempty"`
	MIMEType string    `json:"mimeType,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

// resource is embedded: it has either text or a blob.
type resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     []byte  `json:"blob,omitempty"`
}

// FromJSON takes an object with a content array as the result itself, and every other object as structured content.
func FromJSON(data []byte) (json.RawMessage, error) {
	whole, err := isCallResult(data)
	if err != nil {
		return nil, err
	}
	if !whole {
		return encode(callToolResult{Content: []block{}, StructuredContent: data})
	}
	return compact(data)
}

// isCallResult says whether a JSON object is a CallToolResult, and what is wrong with it.
func isCallResult(data []byte) (bool, error) {
	err := json.Unmarshal(data, &struct{}{})
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		return false, fmt.Errorf("is not JSON: %w (at byte %d)", err, syntax.Offset)
	}
	object := bytes.TrimSpace(data)
	if err != nil || object[0] != '{' {
		return false, errors.New("must be a JSON object")
	}
	fields := members(object)
	content, found := fields["content"]
	if !found || object[content.from] != '[' {
		return false, nil
	}
	for i, at := range elements(content.of(object)) {
		if err := checkBlock(at.of(content.of(object))); err != nil {
			return false, fmt.Errorf("content[%d]%w (an object with a content array is taken as a CallToolResult)", i, err)
		}
	}
	if meta, found := fields["_meta"]; found && object[meta.from] != '{' {
		return false, errors.New("_meta must be an object (an object with a content array is taken as a CallToolResult)")
	}
	if isError, found := fields["isError"]; found && object[isError.from] != 't' && object[isError.from] != 'f' {
		return false, errors.New("isError must be true or false (an object with a content array is taken as a CallToolResult)")
	}
	return true, nil
}

// checkBlock checks what every client relies on: the type, and what such a block must have.
func checkBlock(data []byte) error {
	if data[0] != '{' {
		return errors.New(" must be an object")
	}
	needs := map[string][]string{
		"text": {"text"}, "image": {"data", "mimeType"}, "audio": {"data", "mimeType"},
		"resource": {"resource"}, "resource_link": {"uri", "name"},
	}
	item := members(data)
	isText := func(at span, found bool) bool { return found && data[at.from] == '"' }
	var kind string
	if at, found := item["type"]; !isText(at, found) || json.Unmarshal(at.of(data), &kind) != nil || needs[kind] == nil {
		return errors.New(".type must be text, image, audio, resource or resource_link")
	}
	for _, member := range needs[kind] {
		at, found := item[member]
		if kind == "resource" {
			if !found || data[at.from] != '{' || !checkResource(members(at.of(data))) {
				return errors.New(".resource must be an object with uri, and with text or blob")
			}
		} else if !isText(at, found) {
			return fmt.Errorf(".%s must be a string", member)
		}
	}
	return nil
}

func checkResource(embedded map[string]span) bool {
	_, uri := embedded["uri"]
	_, text := embedded["text"]
	_, blob := embedded["blob"]
	return uri && text != blob
}

// Text is a result that is text.
func Text(text string) (json.RawMessage, error) {
	return encode(callToolResult{Content: []block{{Type: "text", Text: text}}})
}

// Failure is the result of a tool that went wrong, in words.
func Failure(words string) (json.RawMessage, error) {
	return encode(callToolResult{Content: []block{{Type: "text", Text: words}}, IsError: true})
}

// TooLarge stands for a result of that size, where limit bytes are kept.
func TooLarge(size Size, limit int64) (json.RawMessage, error) {
	return Text(fmt.Sprintf("The tool's result has %v: more than the %d bytes that are kept, so it is left out. %s", size, limit, fit.Advice))
}

// Lost stands for a result that could not be stored, and says why.
func Lost(f *File, why string) (json.RawMessage, error) {
	return Text(fmt.Sprintf("The tool's result has %d bytes, SHA-256 %s, and could not be stored: %s", f.Bytes, f.SHA256, why))
}

func encode(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func compact(data []byte) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
