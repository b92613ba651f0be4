package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// MaxInlineBytes is the largest result that is kept in the task itself, as JSON.
const MaxInlineBytes = 16 << 10

// maxObjectBytes is the largest structured result: what encloses it, and a first word of text, take room too.
const maxObjectBytes = MaxInlineBytes - 512

// MetaExitCode is the key in a result's _meta that holds the exit code of a tool that failed.
const MetaExitCode = "mcptask.dev/exitCode"

// callToolResult is MCP's CallToolResult, as far as it is made here (2026-07-28, server/tools, Tool Result).
type callToolResult struct {
	Content           []textContent   `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
	Meta              map[string]any  `json:"_meta,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Build makes the result of a task from the end of its work, the log of it and the container's termination message.
func Build(source v1alpha1.ResultSource, out *decide.Output, log Log, message string) *v1alpha1.TaskResult {
	b := builder{size: log.Size, cut: log.Size > int64(len(log.Tail))}
	if source == v1alpha1.ResultSourceFile {
		b.size, b.cut = int64(len(message)), false
	}
	if !out.Succeeded {
		b.failure(out, log, message)
	} else {
		b.success(source, log, message)
	}
	return b.result()
}

// builder collects the parts of a result; what does not fit is cut from the text, and said.
type builder struct {
	structured json.RawMessage
	head       string // always kept
	text       []byte // its end is kept as far as there is room
	isError    bool
	meta       map[string]any
	size       int64
	cut        bool
}

func (b *builder) success(source v1alpha1.ResultSource, log Log, message string) {
	output := log.Tail
	if source == v1alpha1.ResultSourceFile || len(output) == 0 {
		output = []byte(message)
	}
	b.text = output
	if source == v1alpha1.ResultSourceLog {
		return
	}
	before, object, after := lastObject(output)
	if object == nil {
		return
	}
	if len(object) > maxObjectBytes {
		b.head = fmt.Sprintf("The tool's structured result has %d bytes, more than the %d that are kept; it is left out. Ask for less.", len(object), maxObjectBytes)
		b.text, b.cut = append(before, after...), true
		return
	}
	if err := toolschema.CheckNumbers(object); err != nil {
		b.head = fmt.Sprintf("The tool's structured result is shown as text: %v.", err)
		return
	}
	b.structured = object
	b.text = append(before[:len(before):len(before)], after...)
}

func (b *builder) failure(out *decide.Output, log Log, message string) {
	b.isError = true
	b.head = fmt.Sprintf("The tool ended with exit code %d.", out.ExitCode)
	if out.Cause != "" {
		b.head = strings.ToUpper(out.Cause[:1]) + out.Cause[1:] + fmt.Sprintf(" (exit code %d).", out.ExitCode)
	}
	b.meta = map[string]any{MetaExitCode: out.ExitCode}
	b.text = log.Tail
	if len(b.text) == 0 {
		b.text = []byte(message)
	}
}

// result renders the parts within MaxInlineBytes.
func (b *builder) result() *v1alpha1.TaskResult {
	text := strings.TrimRight(strings.ToValidUTF8(string(b.text), "\uFFFD"), "\r\n")
	for {
		raw := b.render(text)
		if len(raw) <= MaxInlineBytes || text == "" {
			return &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: raw}, Size: b.size, Truncated: b.cut}
		}
		b.cut = true
		// JSON needs up to six bytes for one: cut by what is too much, at least a little, and look again.
		text = KeepEnd(text, len(text)-max((len(raw)-MaxInlineBytes)/6, 256))
	}
}

func (b *builder) render(text string) []byte {
	r := callToolResult{Content: []textContent{}, StructuredContent: b.structured, IsError: b.isError, Meta: b.meta}
	head := b.head
	if b.cut && text != "" {
		head = strings.TrimSpace(head + fmt.Sprintf(" [The output had %d bytes; only its end is kept here.]", b.size))
	}
	for _, t := range []string{head, text} {
		if t != "" {
			r.Content = append(r.Content, textContent{Type: "text", Text: t})
		}
	}
	raw, err := encode(r)
	if err != nil {
		// structuredContent was parsed before; nothing else here can fail to encode.
		return []byte(`{"content":[]}`)
	}
	return raw
}

// encode is compact JSON in which no character is escaped that need not be.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// lastObject finds the last line that is a JSON object, and what stands before and after it.
func lastObject(output []byte) (before, object, after []byte) {
	end := len(output)
	for end > 0 {
		start := bytes.LastIndexByte(output[:end], '\n') + 1
		line := bytes.TrimSpace(output[start:end])
		if len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}' && json.Valid(line) {
			if end < len(output) {
				after = output[end+1:]
			}
			return output[:start], line, after
		}
		end = start - 1
	}
	return nil, nil, nil
}

// KeepEnd is the end of a text, at most n bytes and whole characters.
func KeepEnd(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if len(s) > n {
		s = s[len(s)-n:]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	return s
}
