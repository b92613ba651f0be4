package seal

import (
	"strings"
	"testing"
	"time"
)

// FuzzOpen: no text is opened but the one that was sealed, whatever is done to it.
func FuzzOpen(f *testing.F) {
	k, err := NewKeys(key("a"), key("b"))
	if err != nil {
		f.Fatal(err)
	}
	text, err := k.Seal("state", value{"x"}, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{text, "", "*", text[:len(text)/2], text + "=", text + "A", strings.ToUpper(text), text[1:], text + "\n", strings.Repeat("A", 100)} {
		f.Add("state", seed)
		f.Add("session", seed)
	}
	f.Fuzz(func(t *testing.T, purpose, shown string) {
		var got value
		if err := k.Open(purpose, shown, &got); err == nil && (shown != text || purpose != "state" || got.A != "x") {
			t.Fatalf("%q is opened for %q as %+v", shown, purpose, got)
		}
	})
}
