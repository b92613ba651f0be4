// Package plain keeps what a tool says from steering the terminal or turning the text of whoever reads it.
package plain

import (
	"strings"
	"unicode"
)

// Control is the first character of a text that does not stand for itself: a control character (C0, DEL, C1), or one
// that turns the direction of the text around it (Unicode Standard Annex 9, explicit formatting characters).
func Control(text string) (rune, bool) {
	for _, r := range text {
		if isControl(r) {
			return r, true
		}
	}
	return 0, false
}

// Line is a text in one line, with a space for each such character.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Text is Line, but keeps line feeds and tabs.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text)
}

func isControl(r rune) bool {
	return unicode.IsControl(r) || '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
}
