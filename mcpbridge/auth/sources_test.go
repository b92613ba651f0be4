package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// source takes every credential for the same caller's, or for nobody's.
type source struct {
	subject string
	err     error
}

func (s source) Authenticate(context.Context, Request) (Principal, error) {
	return Principal{Identity: v1alpha1.Identity{Issuer: "test", Subject: s.subject}}, s.err
}

// jwt is a token without a signature that names an issuer.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestEveryCredentialBelongsToOneSource(t *testing.T) {
	all := Sources{
		Issuers: map[string]Authenticator{"https://a": source{"of-a", nil}, "https://down": source{"", ErrUnavailable}, "https://strict": source{"", ErrRefused}},
		Keys:    source{"of-a-key", nil}, Cluster: source{"of-the-cluster", nil}, Anonymous: true,
	}
	few := Sources{Issuers: map[string]Authenticator{"https://a": source{"of-a", nil}}}
	for name, tc := range map[string]struct {
		sources       Sources
		authorization string
		want          string
		err           error
	}{
		"an issuer's token":                 {all, "Bearer " + jwt(`{"iss":"https://a"}`), "test:of-a", nil},
		"another issuer's token":            {all, "Bearer " + jwt(`{"iss":"https://b"}`), "test:of-the-cluster", nil},
		"an issuer's name with a slash":     {all, "Bearer " + jwt(`{"iss":"https://a/"}`), "test:of-the-cluster", nil},
		"an issuer that is down":            {all, "Bearer " + jwt(`{"iss":"https://down"}`), "", ErrUnavailable},
		"an issuer that refuses":            {all, "Bearer " + jwt(`{"iss":"https://strict"}`), "", ErrRefused},
		"an API key":                        {all, "Bearer mcptask_abc", "test:of-a-key", nil},
		"nonsense":                          {all, "Bearer nonsense", "test:of-the-cluster", nil},
		"no JSON":                           {all, "Bearer " + jwt(`{`), "test:of-the-cluster", nil},
		"a list of issuers":                 {all, "Bearer " + jwt(`{"iss":["https://a"]}`), "test:of-the-cluster", nil},
		"nothing":                           {all, "", "anonymous:anonymous", nil},
		"another scheme":                    {all, "Basic abc", "", ErrRefused},
		"no token":                          {all, "Bearer ", "", ErrRefused},
		"too large a token":                 {all, "Bearer " + strings.Repeat("x", maxTokenBytes+1), "", ErrRefused},
		"a key where there are none":        {few, "Bearer mcptask_abc", "", ErrRefused},
		"a token where no cluster is asked": {few, "Bearer nonsense", "", ErrRefused},
		"nothing where that is not enough":  {few, "", "", ErrNoCredentials},
		"a source that names nobody":        {Sources{Cluster: source{"", nil}}, "Bearer x", "", ErrRefused},
		"a source with too long a name":     {Sources{Cluster: source{strings.Repeat("x", MaxSubject+1), nil}}, "Bearer x", "", ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			principal, err := tc.sources.Authenticate(t.Context(), request(tc.authorization))
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || err == nil && principal.String() != tc.want {
				t.Errorf("got %s, %v", principal, err)
			}
			if err != nil && len(tc.authorization) > 12 && strings.Contains(err.Error(), tc.authorization[7:]) {
				t.Errorf("the error repeats the credentials: %v", err)
			}
		})
	}
}

func TestTwoCredentialsAreNone(t *testing.T) {
	header := http.Header{"Authorization": {"Bearer one", "Bearer two"}}
	if _, err := (Sources{Cluster: source{"of-the-cluster", nil}, Anonymous: true}).Authenticate(t.Context(), Request{Header: header}); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}

func TestNamesOfCallersDiffer(t *testing.T) {
	names := map[string]v1alpha1.Identity{}
	for _, identity := range []v1alpha1.Identity{
		{Issuer: "https://a", Subject: "8443:x"}, {Issuer: "https://a:8443", Subject: "x"}, {Issuer: "https://a", Subject: "x"},
		{Issuer: "kubernetes", Subject: "x"}, {Issuer: "apikey", Subject: "x"}, {Issuer: "anonymous", Subject: "anonymous"},
	} {
		name := Principal{Identity: identity}.String()
		if other, ok := names[name]; ok {
			t.Errorf("%+v and %+v are both called %s", identity, other, name)
		}
		names[name] = identity
	}
}
