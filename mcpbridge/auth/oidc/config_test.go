package oidc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIssuersThatCannotWorkAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ file, words string }{
		"one":                               {"- issuer: https://a.example.com\n", ""},
		"two":                               {"- {issuer: 'https://a.example.com', userPrefix: 'a:', groupsPrefix: 'a:'}\n- {issuer: 'https://b.example.com', userPrefix: 'b:', groupsPrefix: 'b:'}\n", ""},
		"on this machine":                   {"- issuer: http://127.0.0.1:5556/dex\n", ""},
		"none":                              {"[]", "there are none"},
		"an empty file":                     {"", "there are none"},
		"an unknown field":                  {"- {issuer: 'https://a.example.com', audience: x}\n", "audience"},
		"without TLS":                       {"- issuer: http://a.example.com\n", "https"},
		"no URL":                            {"- issuer: a.example.com\n", "URL"},
		"a query":                           {"- issuer: https://a.example.com?x=y\n", "query"},
		"a fragment":                        {"- issuer: 'https://a.example.com#x'\n", "fragment"},
		"twice":                             {"- issuer: https://a.example.com\n- issuer: https://a.example.com\n", "twice"},
		"the same names":                    {"- issuer: https://a.example.com\n- issuer: https://b.example.com\n", "Prefix"},
		"one can give the other's names":    {"- {issuer: 'https://a.example.com', userPrefix: 'a:', groupsPrefix: 'a:'}\n- {issuer: 'https://b.example.com', userPrefix: 'a:b:', groupsPrefix: 'b:'}\n", "Prefix"},
		"names of the system":               {"- {issuer: 'https://a.example.com', userPrefix: 'system:'}\n", "system:"},
		"a part of the system's names":      {"- {issuer: 'https://a.example.com', groupsPrefix: 'sys'}\n", "system:"},
		"names of ours":                     {"- {issuer: 'https://a.example.com', userPrefix: 'apikey:'}\n", "apikey:"},
		"a secret instead of a public key":  {"- {issuer: 'https://a.example.com', algorithms: [HS256]}\n", "HS256"},
		"no signature at all":               {"- {issuer: 'https://a.example.com', algorithms: [none]}\n", "none"},
		"a certificate that is none":        {"- {issuer: 'https://a.example.com', certificateAuthority: x}\n", "certificateAuthority"},
		"an issuer that no task could hold": {"- issuer: https://a.example.com/" + strings.Repeat("x", 512) + "\n", "512"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "issuers.yaml")
			if err := os.WriteFile(file, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			issuers, err := Load(file)
			switch {
			case tc.words == "" && err != nil:
				t.Error(err)
			case tc.words == "" && (issuers[0].SubjectClaim != "sub" || issuers[0].UserPrefix == "" || issuers[0].GroupsPrefix == "" || len(issuers[0].Algorithms) == 0):
				t.Errorf("got %+v", issuers[0])
			case tc.words != "" && (err == nil || !strings.Contains(err.Error(), tc.words) || !strings.Contains(err.Error(), file)):
				t.Errorf("got %v", err)
			}
		})
	}
}
