package oidc

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
)

const audience = "https://mcp.example.com/mcp/team"

type fixture struct {
	*Issuer
	provider *oidctest.Issuer
	log      *bytes.Buffer
	mu       sync.Mutex
	ahead    time.Duration
}

func newFixture(t *testing.T, change func(*Config), scopes ...string) *fixture {
	t.Helper()
	f := &fixture{provider: oidctest.New(t), log: &bytes.Buffer{}}
	configs := []Config{{Issuer: f.provider.URL, GroupsClaim: "groups", CertificateAuthority: f.provider.CertificateAuthority}}
	if change != nil {
		change(&configs[0])
	}
	if err := Check(configs); err != nil {
		t.Fatal(err)
	}
	f.Issuer = New(configs[0], scopes, slog.New(slog.NewTextHandler(f.log, nil)))
	f.now = func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return time.Now().Add(f.ahead)
	}
	return f
}

// pass lets time pass for the bridge; for the issuer, and so in new tokens, it does not.
func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead += d
}

func (f *fixture) show(t *testing.T, token string) (auth.Principal, error) {
	t.Helper()
	return f.Authenticate(t.Context(), auth.Request{Header: http.Header{"Authorization": {"Bearer " + token}}, Namespace: "team", Audiences: []string{audience}})
}

func (f *fixture) good(t *testing.T) string { return f.provider.Token(t, "alice", audience, nil) }

func TestAGoodTokenNamesItsCaller(t *testing.T) {
	f := newFixture(t, nil)
	now := time.Now()
	for name, changed := range map[string]map[string]any{
		"plain":                       {},
		"among several audiences":     {"aud": []string{"https://other.example.com", audience}},
		"expired within the skew":     {"exp": now.Add(-skew + 10*time.Second).Unix()},
		"early within the skew":       {"nbf": now.Add(skew - 10*time.Second).Unix(), "iat": now.Add(skew - 10*time.Second).Unix()},
		"with claims of other people": {"azp": "client", "client_id": "client", "email": "bob@example.com", "preferred_username": "bob", "SUB": "bob"},
	} {
		principal, err := f.show(t, f.provider.Token(t, "alice", audience, changed))
		if err != nil || principal.Issuer != f.provider.URL || principal.Subject != "alice" || principal.User != "oidc:alice" || principal.Groups != nil {
			t.Errorf("%s: %+v, %v", name, principal, err)
		}
	}
	for _, kind := range []string{"", "JWT", "at+jwt", "application/at+jwt"} {
		if _, err := f.show(t, oidctest.Sign(t, f.provider.Key(), f.provider.Claims("alice", audience, nil), map[jose.HeaderKey]any{"typ": kind})); err != nil {
			t.Errorf("typ %q: %v", kind, err)
		}
	}
}

// Two callers of one OAuth client are two: what they share says nothing about who they are.
func TestTwoCallersOfOneClientAreTwo(t *testing.T) {
	f := newFixture(t, nil)
	client := map[string]any{"azp": "client", "client_id": "client"}
	alice, err := f.show(t, f.provider.Token(t, "alice", audience, client))
	if err != nil {
		t.Fatal(err)
	}
	bob, err := f.show(t, f.provider.Token(t, "bob", audience, client))
	if err != nil {
		t.Fatal(err)
	}
	if alice.Identity == bob.Identity || alice.User == bob.User || alice.Hash() == bob.Hash() {
		t.Errorf("%+v and %+v", alice, bob)
	}
}

func TestEveryWrongClaimIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	now := time.Now()
	for name, changed := range map[string]map[string]any{
		"another issuer":              {"iss": "https://issuer.example.com"},
		"the issuer with a slash":     {"iss": f.provider.URL + "/"},
		"no issuer":                   {"iss": nil},
		"another namespace":           {"aud": "https://mcp.example.com/mcp/other"},
		"a longer namespace":          {"aud": audience + "s"},
		"the bridge as a whole":       {"aud": "https://mcp.example.com"},
		"the endpoint with a slash":   {"aud": audience + "/"},
		"no audience":                 {"aud": nil},
		"no audiences":                {"aud": []string{}},
		"an empty audience":           {"aud": ""},
		"expired":                     {"exp": now.Add(-skew - 10*time.Second).Unix()},
		"never expires":               {"exp": nil},
		"expires in words":            {"exp": "tomorrow"},
		"not yet":                     {"nbf": now.Add(skew + 10*time.Second).Unix()},
		"issued in the future":        {"iat": now.Add(skew + 10*time.Second).Unix()},
		"no subject":                  {"sub": nil},
		"an empty subject":            {"sub": ""},
		"a blank subject":             {"sub": " \t"},
		"a subject that is a number":  {"sub": 7},
		"a subject that is null":      {"sub": json.RawMessage("null")},
		"a subject that is a list":    {"sub": []string{"alice"}},
		"a subject of several lines":  {"sub": "alice\nbob"},
		"too long a subject":          {"sub": strings.Repeat("x", auth.MaxSubject+1)},
		"groups that are a number":    {"groups": 7},
		"groups that are not strings": {"groups": []any{"a", 7}},
	} {
		token := f.provider.Token(t, "alice", audience, changed)
		if principal, err := f.show(t, token); !errors.Is(err, auth.ErrRefused) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %+v, %v", name, principal, err)
		}
	}
	if _, err := f.Authenticate(t.Context(), auth.Request{Header: http.Header{"Authorization": {"Bearer " + f.good(t)}}}); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("where no audience is ours: %v", err)
	}
}

// rawToken writes a token by hand, as no library would.
func rawToken(header, claims string, signature []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode([]byte(claims)) + "." + encode(signature)
}

func TestEveryWrongSignatureIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	good, key := f.good(t), f.provider.Key()
	parts := strings.Split(good, ".")
	claims, _ := json.Marshal(f.provider.Claims("alice", audience, nil))
	mac := func(secret []byte) string {
		header := `{"alg":"HS256","kid":"first"}`
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(strings.TrimSuffix(rawToken(header, string(claims), nil), ".")))
		return rawToken(header, string(claims), h.Sum(nil))
	}
	der, err := x509.MarshalPKIXPublicKey(key.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := key.Public()
	jwk, _ := public.MarshalJSON()
	mallory := oidctest.ECDSA(t, "first")
	for name, token := range map[string]string{
		"no algorithm":                     rawToken(`{"alg":"none","kid":"first"}`, string(claims), nil),
		"no algorithm, in capitals":        rawToken(`{"alg":"NONE","kid":"first"}`, string(claims), nil),
		"no algorithm and the signature":   rawToken(`{"alg":"none","kid":"first"}`, string(claims), []byte(parts[2])),
		"HS256 with the public key, DER":   mac(der),
		"HS256 with the public key, PEM":   mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 with the public key, JWK":   mac(jwk),
		"HS256 with nothing":               mac(nil),
		"another's key of the same name":   oidctest.Sign(t, mallory, f.provider.Claims("alice", audience, nil), nil),
		"another's key in the token":       oidctest.Sign(t, mallory, f.provider.Claims("alice", audience, nil), map[jose.HeaderKey]any{"jwk": mallory.Public()}),
		"another's key at another address": oidctest.Sign(t, mallory, f.provider.Claims("alice", audience, nil), map[jose.HeaderKey]any{"jku": "https://mallory.example.com/keys"}),
		"an unknown key":                   oidctest.Sign(t, oidctest.ECDSA(t, "other"), f.provider.Claims("alice", audience, nil), nil),
		"changed claims":                   parts[0] + "." + strings.Replace(parts[1], parts[1][:8], "eyJhIjox", 1) + "." + parts[2],
		"a changed signature":              parts[0] + "." + parts[1] + "." + "AAAA" + parts[2][4:],
		"no signature":                     parts[0] + "." + parts[1] + ".",
		"an unknown critical header":       oidctest.Sign(t, key, f.provider.Claims("alice", audience, nil), map[jose.HeaderKey]any{"crit": []string{"x"}, "x": 1}),
		"a logout token":                   oidctest.Sign(t, key, f.provider.Claims("alice", audience, nil), map[jose.HeaderKey]any{"typ": "logout+jwt"}),
		"claims twice":                     sign(t, key, `{"iss":"`+f.provider.URL+`","sub":"bob","sub":"alice","aud":"`+audience+`","exp":9999999999}`),
		"claims that are a list":           sign(t, key, `[]`),
		"JSON serialization":               `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"five parts":                       good + ".e30.e30",
		"two parts":                        parts[0] + "." + parts[1],
		"garbage":                          "garbage",
		"dots":                             "..",
		"large":                            "e30." + strings.Repeat("A", 15<<10) + ".e30",
	} {
		if principal, err := f.show(t, token); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, principal, err)
		}
	}
	if _, err := f.show(t, good); err != nil {
		t.Errorf("the good one: %v", err)
	}
	if n := f.provider.Fetches.Load(); n > 2 {
		t.Errorf("bad tokens made %d requests to the issuer", n)
	}
	if f.log.Len() > 0 {
		t.Errorf("the log is %s", f.log)
	}
}

func sign(t *testing.T, key oidctest.Key, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: key.Algorithm, Key: jose.JSONWebKey{Key: key.Private, KeyID: key.ID}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestClaimsBecomeThePrincipalByConfiguration(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.SubjectClaim, c.GroupsClaim, c.UserPrefix, c.GroupsPrefix = "email", "roles", "corp:", "corp-roles:"
	})
	principal, err := f.show(t, f.provider.Token(t, "1234", audience, map[string]any{"email": "alice@example.com", "email_verified": true, "roles": []string{"a", "b"}, "groups": "admins"}))
	if err != nil || principal.Subject != "alice@example.com" || principal.User != "corp:alice@example.com" || fmt.Sprint(principal.Groups) != "[corp-roles:a corp-roles:b]" {
		t.Errorf("%+v, %v", principal, err)
	}
	if principal, err := f.show(t, f.provider.Token(t, "1234", audience, map[string]any{"email": "alice@example.com", "email_verified": true, "roles": "a"})); err != nil || len(principal.Groups) != 1 {
		t.Errorf("one group: %+v, %v", principal, err)
	}
	for name, changed := range map[string]map[string]any{
		"no email": {}, "an unverified email": {"email": "alice@example.com"}, "an email that is said to be bad": {"email": "alice@example.com", "email_verified": false},
		"an email verified in words": {"email": "alice@example.com", "email_verified": "true"},
	} {
		if _, err := f.show(t, f.provider.Token(t, "1234", audience, changed)); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestScopes(t *testing.T) {
	f := newFixture(t, nil, "mcp:call", "mcp:tasks")
	for name, tc := range map[string]struct {
		claims map[string]any
		want   error
	}{
		"both, in words":   {map[string]any{"scope": "openid mcp:tasks mcp:call"}, nil},
		"both, in a list":  {map[string]any{"scp": []string{"mcp:call", "mcp:tasks"}}, nil},
		"one of them":      {map[string]any{"scope": "mcp:call"}, auth.ErrScope},
		"a part of a word": {map[string]any{"scope": "mcp:call mcp:tasksx"}, auth.ErrScope},
		"none":             {nil, auth.ErrScope},
		"a number":         {map[string]any{"scope": 7}, auth.ErrScope},
		"of a bad token":   {map[string]any{"scope": "mcp:call mcp:tasks", "sub": nil}, auth.ErrRefused},
	} {
		if _, err := f.show(t, f.provider.Token(t, "alice", audience, tc.claims)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
