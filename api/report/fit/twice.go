package fit

import (
	"bytes"
	"encoding/json"
)

// Twice says whether the text of a text block, a JSON string, says just what the structured content says: the same JSON but
// for white space. Who shows the result adds such a text again (MCP 2026-07-28, Tools, Structured Content). Both are valid JSON.
func Twice(text, structured json.RawMessage) bool {
	// Quotes and what stands before them only make it longer.
	if len(structured) == 0 || len(text) < 2 || text[0] != '"' || len(text) < len(structured)/2 {
		return false
	}
	var said string
	if json.Unmarshal(text, &said) != nil {
		return false
	}
	a := words{rest: []byte(said)}
	b := words{rest: structured}
	for {
		one, other := a.next(), b.next()
		if !bytes.Equal(one, other) {
			return false
		}
		if one == nil {
			return true
		}
	}
}

// words cuts a JSON text into what stands between its white space.
type words struct{ rest []byte }

// next is the next string, or the next run of anything else up to a string or white space; nil at the end. White space and the bounds
// between words fall at the same places in texts that say the same.
func (w *words) next() []byte {
	for len(w.rest) > 0 && isSpace(w.rest[0]) {
		w.rest = w.rest[1:]
	}
	if len(w.rest) == 0 {
		return nil
	}
	n := 1
	switch c := w.rest[0]; {
	case c == '"':
		n = stringEnd(w.rest)
	case !isMark(c):
		for n < len(w.rest) && !isSpace(w.rest[n]) && !isMark(w.rest[n]) && w.rest[n] != '"' {
			n++
		}
	}
	word := w.rest[:n]
	w.rest = w.rest[n:]
	return word
}

// stringEnd is the length of the JSON string at the beginning of a text.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isMark(c byte) bool { return bytes.IndexByte([]byte("{}[]:,"), c) >= 0 }
