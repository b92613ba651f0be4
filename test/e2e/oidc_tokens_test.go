//go:build e2e

package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
	"github.com/mcptask/mcptask/test/harness"
)

// forge signs alice's claims with the provider's own key, with some of them changed, or left out where they are nil.
func (x *tenants) forge(t *testing.T, changed map[string]any, header map[jose.HeaderKey]any) string {
	t.Helper()
	altered := claims(t, x.alice)
	maps.Copy(altered, changed)
	maps.DeleteFunc(altered, func(_ string, value any) bool { return value == nil })
	token := oidctest.Sign(t, x.idp.key, altered, header)
	x.idp.tokens = append(x.idp.tokens, token)
	return token
}

// wrongTokensAreRefused changes one thing at a time of a token that the provider gave.
func wrongTokensAreRefused(t *testing.T, x *tenants) {
	good := func(what, token string) {
		t.Helper()
		if answer := x.ask(x.one, token); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: HTTP %d, %s", what, answer.StatusCode, answer.Header.Get("WWW-Authenticate"))
		}
	}
	now := time.Now()
	typ := map[jose.HeaderKey]any{"typ": "at+jwt"}
	good("nothing changed", x.forge(t, nil, typ))
	good("among several audiences", x.forge(t, map[string]any{"aud": []string{"https://elsewhere.example.com", x.endpoint(x.one)}}, typ))
	for name, changed := range map[string]map[string]any{
		"another issuer":              {"iss": "https://issuer.example.com"},
		"the issuer with a slash":     {"iss": x.idp.issuer + "/"},
		"no issuer":                   {"iss": nil},
		"the other tenant":            {"aud": x.endpoint(x.other)},
		"other audiences":             {"aud": []string{x.endpoint(x.other), "https://" + publicHost}},
		"a longer name":               {"aud": x.endpoint(x.one) + "x"},
		"the bridge as a whole":       {"aud": "https://" + publicHost},
		"the address behind TLS":      {"aud": harness.Audience(x.one)},
		"the OAuth client":            {"aud": "agents"},
		"no audience":                 {"aud": nil},
		"an empty list of audiences":  {"aud": []string{}},
		"an audience that is a map":   {"aud": map[string]string{"a": x.endpoint(x.one)}},
		"expired":                     {"exp": now.Add(-2 * time.Minute).Unix()},
		"never expires":               {"exp": nil},
		"expires in words":            {"exp": "tomorrow"},
		"not yet":                     {"nbf": now.Add(5 * time.Minute).Unix()},
		"issued in the future":        {"iat": now.Add(5 * time.Minute).Unix()},
		"no subject":                  {"sub": nil},
		"an empty subject":            {"sub": ""},
		"a subject that is a number":  {"sub": 7},
		"a subject that is a list":    {"sub": []string{"alice"}},
		"a subject that is a map":     {"sub": map[string]string{"sub": "alice"}},
		"a subject of two lines":      {"sub": "alice\nbob"},
		"a subject too long to store": {"sub": strings.Repeat("x", 513)},
	} {
		refused(t, x, name, x.one, x.forge(t, changed, typ))
	}
	for name, header := range map[string]map[jose.HeaderKey]any{
		"a logout token":       {"typ": "logout+jwt"},
		"a DPoP proof":         {"typ": "dpop+jwt"},
		"a critical extension": {"typ": "at+jwt", "crit": []string{"x"}, "x": true},
	} {
		refused(t, x, name, x.one, x.forge(t, nil, header))
	}

	parts := strings.Split(x.alice, ".")
	payload, err := json.Marshal(claims(t, x.alice))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(x.idp.key.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	public, err := x.idp.key.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	mac := func(secret []byte) string {
		header := fmt.Sprintf(`{"alg":"HS256","kid":%q,"typ":"at+jwt"}`, x.idp.key.ID)
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(strings.TrimSuffix(rawToken(header, string(payload), nil), ".")))
		return rawToken(header, string(payload), h.Sum(nil))
	}
	mallory, stranger := oidctest.ECDSA(t, x.idp.key.ID), oidctest.ECDSA(t, "mallory")
	for name, token := range map[string]string{
		"alg none":                            rawToken(`{"alg":"none"}`, string(payload), nil),
		"alg none with the key's id":          rawToken(fmt.Sprintf(`{"alg":"none","kid":%q}`, x.idp.key.ID), string(payload), nil),
		"alg None":                            rawToken(`{"alg":"None"}`, string(payload), nil),
		"alg none and a signature":            rawToken(`{"alg":"none"}`, string(payload), []byte(parts[2])),
		"HS256 with the public key, DER":      mac(der),
		"HS256 with the public key, PEM":      mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 with the public key, JWK":      mac(public),
		"HS256 with nothing":                  mac(nil),
		"an unknown key id":                   oidctest.Sign(t, stranger, claims(t, x.alice), nil),
		"another's key of the same id":        oidctest.Sign(t, mallory, claims(t, x.alice), nil),
		"another's key in the token":          oidctest.Sign(t, mallory, claims(t, x.alice), map[jose.HeaderKey]any{"jwk": mallory.Public()}),
		"another's keys elsewhere":            oidctest.Sign(t, mallory, claims(t, x.alice), map[jose.HeaderKey]any{"jku": "https://mallory.example.com/keys"}),
		"bob's claims with alice's signature": parts[0] + "." + strings.Split(x.bob, ".")[1] + "." + parts[2],
		"a changed signature":                 parts[0] + "." + parts[1] + ".AAAA" + parts[2][4:],
		"no signature":                        parts[0] + "." + parts[1] + ".",
		"two parts":                           parts[0] + "." + parts[1],
		"no token":                            "garbage",
	} {
		refused(t, x, name, x.one, token)
	}
	good("what the provider gave", x.alice)
}

// rawToken writes a token by hand, as no library would.
func rawToken(header, payload string, signature []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode([]byte(payload)) + "." + encode(signature)
}

func scopeIsAskedFor(t *testing.T, x *tenants) {
	for name, token := range map[string]string{
		"a token that the provider gave without it": x.token(x.one, "alice", "agents", "openid"),
		"a scope that begins like it":               x.forge(t, map[string]any{"scope": "mcp:toolsets"}, nil),
		"no scope":                                  x.forge(t, map[string]any{"scope": nil}, nil),
	} {
		response := x.as(x.one, token).Call(t, "tools/call", map[string]any{"name": "compute"})
		challenge := response.Header.Get("WWW-Authenticate")
		if response.Status != http.StatusForbidden || !strings.HasPrefix(challenge, `Bearer error="insufficient_scope", `) || !strings.HasSuffix(challenge, `, scope="mcp:tools"`) {
			t.Errorf("%s: HTTP %d, %s: %s", name, response.Status, challenge, response.Raw)
		}
	}
}

// keysAreRotated has the provider sign with another key, first beside the old one, as providers do, and then alone.
func keysAreRotated(t *testing.T, x *tenants) {
	old, before := x.idp.key, x.alice
	answers := func(token string, want int) func(context.Context) error {
		clients := x.replicas(t, x.one, token)
		return func(context.Context) error {
			for i, client := range clients {
				if response := client.Call(t, "tools/list", nil); response.Status != want {
					return fmt.Errorf("replica %d answers %d", i, response.Status)
				}
			}
			return nil
		}
	}
	// A replica asks for keys that it does not know at most every 10 seconds: unknown ones were shown to it just before.
	const within = 15 * time.Second
	x.idp.rotate(t, oidctest.RSA(t, "second", 2048), old.Public())
	x.alice = x.token(x.one, "alice", "agents")
	if key := keyOf(t, x.alice); key != "second" {
		t.Errorf("the provider signs with %q", key)
	}
	harness.Eventually(t, within, "the new token is accepted by every replica", answers(x.alice, http.StatusOK))
	if err := answers(before, http.StatusOK)(t.Context()); err != nil {
		t.Errorf("a token of the old key, while it is published: %v", err)
	}

	x.idp.rotate(t, oidctest.ECDSA(t, "third"))
	between := x.alice
	x.alice = x.token(x.one, "alice", "agents")
	harness.Eventually(t, within, "the newest token is accepted by every replica", answers(x.alice, http.StatusOK))
	for name, token := range map[string]string{"first": before, "second": between} {
		if err := answers(token, http.StatusUnauthorized)(t.Context()); err != nil {
			t.Errorf("a token of the %s key, which is no longer published: %v", name, err)
		}
	}
	x.bob = x.token(x.one, "bob", "agents")
}

// keyOf is the id of the key that a token is signed with.
func keyOf(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Signatures[0].Header.KeyID
}
