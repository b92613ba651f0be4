package fit

import (
	"bytes"
	"encoding/json"
)

// Twice says whether the text of a text block, a JSON string, says just what the structured content says: the same JSON but
// for white space. Who shows the result adds such a text again (MCP 2026-07-28, Tools, Structured Content). Both are valid JSON.
func Twice(text, structured json.RawMessage) bool {
	// Most texts are words, and are not looked into further.
	if len(structured) == 0 || len(text) < 2 || text[0] != '"' || beginning(text[1:]) != structured[0] {
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

// beginning is the first character in a JSON string that is no white space, a quote at its end or where it is a quoted one.
func beginning(text []byte) byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isSpace(c):
		case c != '\\':
			return c
		case i+1 < len(text) && bytes.IndexByte([]byte("nrt"), text[i+1]) >= 0:
			i++
		case i+1 < len(text):
			return text[i+1]
		}
	}
	return '"'
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
