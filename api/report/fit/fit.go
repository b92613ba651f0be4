// Package fit makes the result of a tool small enough to be kept.
package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxInline is the largest result that is kept in the task itself, as JSON.
const MaxInline = 16 << 10

const (
	// noticeBytes is set aside for what encloses the parts, and for saying what is not kept.
	noticeBytes = 896
	// maxMetaBytes is the largest _meta that is kept of a result that is too large.
	maxMetaBytes = 1 << 10
	// minTextBytes is the least end of a text that is worth keeping.
	minTextBytes = 64
	// maxNamed is how many of the parts that are left out are named.
	maxNamed = 5
)

// Kept is as much of a result as there is room for.
type Kept struct {
	// Raw is a CallToolResult, as JSON.
	Raw []byte
	// Size of what the tool put out, in bytes.
	Size int64
	// Truncated says that less is kept.
	Truncated bool
	// IsError says that the result is an error of the tool.
	IsError bool
}

// result is MCP's CallToolResult (2026-07-28, Tools, Tool Result), its fields in the order in which the API server keeps
// them.
type result struct {
	Meta              json.RawMessage   `json:"_meta,omitempty"`
	Content           []json.RawMessage `json:"content"`
	IsError           bool              `json:"isError,omitempty"`
	StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
}

type textBlock struct {
	Text string `json:"text"`
	Type string `json:"type"`
}

// Result is what is kept of a CallToolResult in limit bytes, at least 1024: all of it if it has no more. Else structured content
// and embedded content are kept whole or left out, and text is cut at its front; the result then begins with a text that says so.
// A text that only repeats the structured content is not kept.
func Result(raw json.RawMessage, limit int) (*Kept, error) {
	var whole result
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, fmt.Errorf("reading a tool's result: %w", err)
	}
	whole.Content = slices.DeleteFunc(whole.Content, func(block json.RawMessage) bool { return repeats(block, whole.StructuredContent) })
	if whole.Content == nil {
		whole.Content = []json.RawMessage{}
	}
	kept := &Kept{Size: int64(len(raw)), IsError: whole.IsError}
	var err error
	if kept.Raw, err = encode(whole); err != nil {
		return nil, err
	}
	if len(kept.Raw) > limit {
		kept.Truncated = true
		if kept.Raw, err = encode(cut(whole, len(raw), limit)); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// repeats says whether a block is a text, and nothing else, that repeats the structured content.
func repeats(block, structured json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if len(structured) == 0 || json.Unmarshal(block, &fields) != nil {
		return false
	}
	return len(fields) == 2 && string(fields["type"]) == `"text"` && Twice(fields["text"], structured)
}

// cut keeps as much as there is room for: first what is of use only as a whole, then the ends of the texts.
func cut(whole result, size, limit int) result {
	kept := result{IsError: whole.IsError}
	room := limit - noticeBytes
	var left leftOut
	take := func(part json.RawMessage, name string, most int) bool {
		if len(part) >= room || len(part) > most {
			left = append(left, fmt.Sprintf("%s (%d bytes)", name, len(part)))
			return false
		}
		room -= len(part) + 1 // and a comma
		return true
	}
	if take(whole.Meta, "_meta", maxMetaBytes) {
		kept.Meta = whole.Meta
	}
	if take(whole.StructuredContent, "structuredContent", limit) {
		kept.StructuredContent = whole.StructuredContent
	}
	blocks := make([]json.RawMessage, len(whole.Content))
	for i, block := range whole.Content {
		if _, isText := textOf(block); !isText && take(block, nameOf(block), limit) {
			blocks[i] = block
		}
	}
	textCut := false
	for i := len(blocks) - 1; i >= 0; i-- {
		text, isText := textOf(whole.Content[i])
		switch {
		case !isText:
		case len(whole.Content[i]) < room:
			blocks[i] = whole.Content[i]
			room -= len(blocks[i]) + 1
		default:
			textCut = true
			if end := End(text, room-len(`{"text":"","type":"text"},`)); len(end) >= minTextBytes {
				// Strings always encode.
				blocks[i], _ = encode(textBlock{Text: end, Type: "text"})
			}
			room = 0 // the texts before this one are older still
		}
	}
	notice, _ := encode(textBlock{Text: left.say(size, limit, textCut), Type: "text"})
	kept.Content = append(kept.Content, notice)
	for _, block := range blocks {
		if block != nil {
			kept.Content = append(kept.Content, block)
		}
	}
	return kept
}

// Advice is what can be done about a result that is too large, in words for whoever called the tool.
const Advice = "To see all of it, call the tool so that it returns less at a time, if its arguments allow that; or ask those who run it to raise its result.maxBytes or to let it store its output elsewhere."

// leftOut are the parts that are not kept.
type leftOut []string

func (l leftOut) say(size, limit int, textCut bool) string {
	words := fmt.Sprintf("[The result had %d bytes, more than the %d that are kept.", size, limit)
	if named := slices.Clone(l); len(named) > 0 {
		if len(named) > maxNamed {
			named = append(named[:maxNamed], fmt.Sprintf("and %d more", len(l)-maxNamed))
		}
		words += " Left out: " + strings.Join(named, ", ") + "."
	}
	if textCut {
		words += " Of the text only the end is kept."
	}
	return words + " " + Advice + "]"
}

// textOf is the text of a text block.
func textOf(block json.RawMessage) (string, bool) {
	var b textBlock
	err := json.Unmarshal(block, &b)
	return b.Text, err == nil && b.Type == "text"
}

// nameOf says what an embedded content is.
func nameOf(block json.RawMessage) string {
	var b struct {
		Type     string `json:"type"`
		MIMEType string `json:"mimeType"`
		Resource struct {
			MIMEType string `json:"mimeType"`
		} `json:"resource"`
	}
	_ = json.Unmarshal(block, &b) // what cannot be read has no name
	name := clip(b.Type)
	if mime := b.MIMEType + b.Resource.MIMEType; mime != "" {
		name += " " + clip(mime)
	}
	return strings.TrimSpace(name + " content")
}

// clip bounds what a tool chose.
func clip(s string) string {
	const most = 32
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\`, r) {
			return '?'
		}
		return r
	}, s)
	if len(plain) > most {
		return plain[:most] + "…"
	}
	return plain
}

// End is the longest end of a text that takes at most room bytes inside a JSON string.
func End(text string, room int) string {
	start := len(text)
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:start])
		if room -= encodedLen(r); room < 0 {
			break
		}
		start -= size
	}
	return text[start:]
}

// encodedLen is what encoding/json makes of a character inside a string.
func encodedLen(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}

// encode writes JSON without needless escapes.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("writing a tool's result: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
