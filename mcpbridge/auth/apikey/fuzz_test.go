package apikey

import (
	"strings"
	"testing"

	"github.com/mcptask/mcptask/mcpbridge/auth"
)

// FuzzEntry: whatever stands in a file of the folder, which may be a key by mistake, it describes a caller with a name, or the
// error says what a file must have and repeats nothing of it.
func FuzzEntry(f *testing.F) {
	hash := strings.Repeat("0f", 32)
	for _, seed := range []string{
		"sha256: " + hash + "\nsubject: ci\nnamespaces: [team]\n", "sha256: " + hash + "\nsubject: ' '\nnamespaces: [team]\n", `{"sha256":"` + hash + `","subject":"ci","namespaces":["*"],"groups":["a"]}`,
		"mcptask_" + strings.Repeat("k", 43), "sha256: 1e9\nsubject: 7\n", "&a [*a]", "a: &a [x]\nb: [*a,*a]\n", "\x00", "---\n---\n", "subject: !!binary aGk=\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := parse(raw)
		if err != nil {
			if len(raw) > 20 && strings.Contains(err.Error(), string(raw)) {
				t.Fatalf("%q is repeated: %v", raw, err)
			}
			return
		}
		if strings.TrimSpace(e.Subject) == "" || len(e.Subject) > auth.MaxSubject || len(e.Namespaces) == 0 || len(e.SHA256) != 64 {
			t.Fatalf("%q describes %+v", raw, e)
		}
	})
}
