package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// CallResult is MCP's CallToolResult (2026-07-28, Tools, Tool Result).
type CallResult struct {
	ResultType        string            `json:"resultType"`
	Content           []json.RawMessage `json:"content"`
	StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
	IsError           bool              `json:"isError,omitempty"`
	Meta              json.RawMessage   `json:"_meta,omitempty"`
}

// ErrorResult is the result of a tool that says in words what went wrong.
func ErrorResult(text string) *CallResult {
	return &CallResult{ResultType: resultComplete, Content: []json.RawMessage{textBlock(text)}, IsError: true}
}

// newCallResult makes a stored result fit to send: the content is an array, structured content stands in a text
// block too (Tools, Structured Content), and what does not fit the tool's outputSchema is an error of the tool.
func newCallResult(stored *v1alpha1.TaskResult, raw []byte, output *toolschema.Schema) *CallResult {
	if stored == nil || len(raw) == 0 {
		return ErrorResult("The tool ended without a result that could be kept.")
	}
	result := &CallResult{}
	// What stands in Secrets, nobody has looked into before.
	if err := json.Unmarshal(raw, result); err != nil || stored.SecretRef != nil && (!utf8.Valid(raw) || !shown(result)) {
		return ErrorResult("The stored result of the tool is not a tool result and cannot be shown.")
	}
	result.ResultType = resultComplete
	if string(result.StructuredContent) == "null" {
		result.StructuredContent = nil
	}
	if stored.ExitCode != nil {
		result.fail(*stored.ExitCode)
	}
	if fault := misfit(result, output); fault != "" {
		if stored.Truncated && len(result.StructuredContent) == 0 {
			fault += ", because the result is too large to be kept whole"
		}
		explained := ErrorResult("The tool's result does not fit its outputSchema: " + fault)
		explained.Content = append(explained.Content, result.Content...)
		explained.Meta = result.Meta
		return explained
	}
	if result.Content == nil {
		result.Content = []json.RawMessage{}
	}
	if len(result.StructuredContent) > 0 && !hasText(result.Content, result.StructuredContent) {
		result.Content = append(result.Content, textBlock(string(result.StructuredContent)))
	}
	return result
}

// shown says whether the blocks of a result are such as clients know.
func shown(result *CallResult) bool {
	for _, raw := range result.Content {
		var block struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &block) != nil {
			return false
		}
		switch block.Type {
		case "text", "image", "audio", "resource", "resource_link":
		default:
			return false
		}
	}
	return len(result.Meta) == 0 || IsObject(result.Meta)
}

// metaExitCode is the key in a result's _meta that holds the exit code of a tool that failed.
const metaExitCode = "mcptask.dev/exitCode"

// fail makes a result that was handed over that of a tool which failed afterwards.
func (r *CallResult) fail(code int32) {
	r.IsError = true
	r.Content = append(r.Content, textBlock(fmt.Sprintf("The tool handed over this result and then ended with exit code %d.", code)))
	meta := map[string]json.RawMessage{}
	if len(r.Meta) > 0 && json.Unmarshal(r.Meta, &meta) != nil || meta == nil {
		meta = map[string]json.RawMessage{} // null
	}
	meta[metaExitCode] = json.RawMessage(fmt.Sprint(code))
	r.Meta, _ = json.Marshal(meta) // what was parsed marshals
}

// misfit says where and why the result does not fit the schema, "" when it does.
func misfit(result *CallResult, output *toolschema.Schema) string {
	if output == nil || result.IsError {
		return ""
	}
	if len(result.StructuredContent) == 0 {
		return "structuredContent is missing"
	}
	err := output.Validate(result.StructuredContent)
	var mismatch *toolschema.Mismatch
	switch {
	case err == nil:
		return ""
	case errors.As(err, &mismatch):
		return "structuredContent: " + mismatch.Error()
	}
	return "structuredContent could not be checked"
}

// hasText says whether a text block holds the same JSON value.
func hasText(content []json.RawMessage, structured json.RawMessage) bool {
	var want any
	for _, raw := range content {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &block) != nil || block.Type != "text" {
			continue
		}
		// Words are not JSON: most often nothing large needs to be read.
		if text := strings.TrimLeft(block.Text, " \t\r\n"); text == "" || text[0] != structured[0] {
			continue
		}
		got, err := decode([]byte(block.Text))
		if err != nil {
			continue
		}
		if want == nil {
			if want, err = decode(structured); err != nil {
				return false
			}
		}
		if reflect.DeepEqual(got, want) {
			return true
		}
	}
	return false
}

func decode(raw []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("more than one value")
	}
	return value, nil
}

// Canonical writes a JSON text so that two texts of the same value are the same: fields in order, no white space, and
// numbers as they are.
func Canonical(raw json.RawMessage) ([]byte, error) {
	value, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func textBlock(text string) json.RawMessage {
	block, _ := json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text}) // strings always marshal
	return block
}
