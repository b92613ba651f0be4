package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// reserved is set aside of what is kept: what encloses a structured result, and the words about what is not kept, take room too.
const reserved = 640

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

// Build makes the result of a task from the end of its work, the log of it and the container's termination message. It has at most
// limit bytes.
func Build(source v1alpha1.ResultSource, out *decide.Output, log Log, message string, limit int) *fit.Kept {
	b := builder{limit: limit, text: log.Tail, size: log.Size, hash: log.SHA256, cut: log.Size > int64(len(log.Tail))}
	if len(log.Tail) == 0 || source == v1alpha1.ResultSourceFile && out.Succeeded {
		b = builder{limit: limit, text: []byte(message), size: int64(len(message))}
	}
	b.lost = log.Lost
	switch {
	case !out.Succeeded:
		b.failure(out)
	case source != v1alpha1.ResultSourceLog:
		b.structure()
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
	limit      int
	size       int64
	hash       string // of all that was put out, "" where it is not known
	cut        bool
	lost       string // why there is no output
}

// structure takes the last line that is a JSON object out of the text.
func (b *builder) structure() {
	before, object, after := lastObject(b.text)
	if object == nil {
		return
	}
	if most := b.limit - reserved; len(object) > most {
		b.head = fmt.Sprintf("The tool's structured result has %d bytes, more than the %d that are kept; it is left out.", len(object), most)
		b.text, b.cut = append(before, after...), true
		return
	}
	if len(object) <= fit.MaxInline { // a larger one is stored as it is, not as the API server understands it
		if err := toolschema.CheckNumbers(object); err != nil {
			b.head = fmt.Sprintf("The tool's structured result is shown as text: %v.", err)
			return
		}
	}
	b.structured = bytes.ToValidUTF8(object, []byte("\uFFFD"))
	b.text = append(before[:len(before):len(before)], after...)
}

// failure says how the tool failed.
func (b *builder) failure(out *decide.Output) {
	b.isError = true
	b.head = fmt.Sprintf("The tool ended with exit code %d.", out.ExitCode)
	if out.Cause != "" {
		b.head = strings.ToUpper(out.Cause[:1]) + out.Cause[1:] + fmt.Sprintf(" (exit code %d).", out.ExitCode)
	}
	b.meta = map[string]any{MetaExitCode: out.ExitCode}
}

// result renders the parts within the limit.
func (b *builder) result() *fit.Kept {
	text := strings.TrimRight(strings.ToValidUTF8(string(b.text), "\uFFFD"), "\r\n")
	raw := b.render(text)
	if len(raw) > b.limit && text != "" {
		b.cut = true
		const least = 1 // character of text, without which nothing encloses it
		text = fit.End(text, b.limit-len(b.render("x"))+least)
		raw = b.render(text)
	}
	return &fit.Kept{Raw: raw, Size: b.size, Truncated: b.cut || b.lost != "", IsError: b.isError}
}

func (b *builder) render(text string) []byte {
	r := callToolResult{Content: []textContent{}, StructuredContent: b.structured, IsError: b.isError, Meta: b.meta}
	for _, t := range []string{strings.Join(strings.Fields(b.head+" "+b.lost+" "+b.notice(text)), " "), text} {
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

// notice says what is not kept, and what to do about it.
func (b *builder) notice(text string) string {
	if !b.cut {
		return ""
	}
	words := fmt.Sprintf("[The output had %d bytes", b.size)
	if b.hash != "" {
		words += " with the SHA-256 " + b.hash
	}
	if text != "" {
		words += "; only its end is kept here"
	}
	return words + ". " + fit.Advice + "]"
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
