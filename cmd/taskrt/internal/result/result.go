// Package result makes MCP results (2026-07-28, server/tools, Tool Result) of what a program hands over.
package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxBytes is the largest result that is taken whole. A larger one is left out, and the result says so.
const MaxBytes = 384 << 10

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
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("is not JSON: %w (at byte %d)", err, syntax.Offset)
		}
		return nil, errors.New("must be a JSON object")
	}
	var content []json.RawMessage
	if json.Unmarshal(object["content"], &content) != nil || content == nil {
		return encode(callToolResult{Content: []block{}, StructuredContent: data})
	}
	for i, item := range content {
		if err := checkBlock(item); err != nil {
			return nil, fmt.Errorf("content[%d]%w (an object with a content array is taken as a CallToolResult)", i, err)
		}
	}
	return compact(data)
}

// checkBlock checks what every client relies on: the type, and what such a block must have.
func checkBlock(data json.RawMessage) error {
	var item map[string]json.RawMessage
	if json.Unmarshal(data, &item) != nil || item == nil {
		return errors.New(" must be an object")
	}
	needs := map[string][]string{
		"text": {"text"}, "image": {"data", "mimeType"}, "audio": {"data", "mimeType"},
		"resource": {"resource"}, "resource_link": {"uri", "name"},
	}
	var kind string
	if json.Unmarshal(item["type"], &kind) != nil || needs[kind] == nil {
		return errors.New(".type must be text, image, audio, resource or resource_link")
	}
	for _, member := range needs[kind] {
		var text string
		if kind == "resource" {
			var embedded map[string]json.RawMessage
			if json.Unmarshal(item[member], &embedded) != nil || embedded["uri"] == nil || (embedded["text"] == nil) == (embedded["blob"] == nil) {
				return errors.New(".resource must be an object with uri, and with text or blob")
			}
		} else if item[member] == nil || json.Unmarshal(item[member], &text) != nil {
			return fmt.Errorf(".%s must be a string", member)
		}
	}
	return nil
}

// Text is a result that is text.
func Text(text string) (json.RawMessage, error) {
	return encode(callToolResult{Content: []block{{Type: "text", Text: text}}})
}

// Failure is the result of a tool that went wrong, in words.
func Failure(words string) (json.RawMessage, error) {
	return encode(callToolResult{Content: []block{{Type: "text", Text: words}}, IsError: true})
}

// TooLarge stands for a result of that size.
func TooLarge(size Size) (json.RawMessage, error) {
	return Text(fmt.Sprintf("The tool's result has %v, more than the %d that are taken; it is left out. Ask for less.", size, MaxBytes))
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
