package plain

import "testing"

func TestWhatSteersIsReplaced(t *testing.T) {
	for _, tc := range []struct{ text, line, kept string }{
		{"", "", ""},
		{"häßlich 日本 🎉 \u200f", "häßlich 日本 🎉 \u200f", "häßlich 日本 🎉 \u200f"},
		{"a\tb\nc\r\n", "a b c  ", "a\tb\nc \n"},
		{"\x00\x1b[31mred\x7f\u009b", "  [31mred  ", "  [31mred  "},
		{"\u202aa\u202eb\u2066c\u2069", " a b c ", " a b c "},
	} {
		if got := Line(tc.text); got != tc.line {
			t.Errorf("Line(%q) is %q", tc.text, got)
		}
		if got := Text(tc.text); got != tc.kept {
			t.Errorf("Text(%q) is %q", tc.text, got)
		}
		if r, found := Control(tc.text); found != (tc.text != tc.line) {
			t.Errorf("Control(%q) is %q, %v", tc.text, r, found)
		}
	}
}
