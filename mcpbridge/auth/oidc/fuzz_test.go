package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
)

const fuzzedIssuer = "https://issuer.example.com"

// fuzzed is an issuer whose keys are at hand, behind the choice of the source that a token belongs to.
func fuzzed(f *testing.F, key oidctest.Key) (auth.Sources, *bytes.Buffer) {
	f.Helper()
	configs := []Config{{Issuer: fuzzedIssuer, GroupsClaim: "groups"}}
	if err := Check(configs); err != nil {
		f.Fatal(err)
	}
	log := &bytes.Buffer{}
	issuer := New(configs[0], nil, slog.New(slog.NewTextHandler(log, nil)))
	issuer.keys.read = func(context.Context) (*jose.JSONWebKeySet, error) {
		return &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}, nil
	}
	return auth.Sources{Issuers: map[string]auth.Authenticator{fuzzedIssuer: issuer}}, log
}

func authenticate(sources auth.Sources, headers ...string) (auth.Principal, error) {
	return sources.Authenticate(context.Background(), auth.Request{Header: http.Header{"Authorization": headers}, Namespace: "team", Audiences: []string{audience}})
}

// known says whether an error is one of those that the endpoint knows how to answer.
func known(err error) bool {
	return slices.ContainsFunc([]error{auth.ErrNoCredentials, auth.ErrRefused, auth.ErrScope, auth.ErrUnavailable}, func(one error) bool { return errors.Is(err, one) })
}

// goodClaims are those of a token for this endpoint.
func goodClaims() map[string]any {
	now := time.Now()
	return map[string]any{"iss": fuzzedIssuer, "sub": "alice", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
}

// claimsOf are these as text, with some changed.
func claimsOf(changed map[string]any) string {
	claims := goodClaims()
	maps.Copy(claims, changed)
	raw, _ := json.Marshal(claims) // of what seeds hold
	return string(raw)
}

// FuzzToken: nothing that is sent in the Authorization header names a caller but what the issuer has signed, and no error
// repeats it.
func FuzzToken(f *testing.F) {
	key := oidctest.ECDSA(f, "first")
	sources, log := fuzzed(f, key)
	good := oidctest.Sign(f, key, goodClaims(), nil)
	if _, err := authenticate(sources, "Bearer "+good); err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for _, seed := range []string{
		good, "Bearer", "Bearer ", "Basic YTpi", "bearer " + good, "Bearer  " + good,
		"Bearer " + rawToken(`{"alg":"none"}`, claimsOf(nil), nil),
		"Bearer " + rawToken(`{"alg":"ES256","kid":"first","crit":["b64"],"b64":false}`, claimsOf(nil), []byte(strings.Repeat("s", 64))),
		"Bearer " + rawToken(`{"alg":"RS256","kid":null,"jwk":{"kty":"EC"}}`, claimsOf(nil), []byte("s")),
		"Bearer " + parts[0] + "." + parts[1] + ".", "Bearer " + parts[0] + ".." + parts[2], "Bearer " + good + "." + good,
		`Bearer {"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
		"Bearer mcptask_" + strings.Repeat("k", 32),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		principal, err := authenticate(sources, header)
		if err == nil {
			// The signature covers the first two parts as they stand, and nobody here can sign others.
			if token, _ := auth.Bearer(http.Header{"Authorization": {header}}); !strings.HasPrefix(token, parts[0]+"."+parts[1]+".") || principal.Subject != "alice" {
				t.Fatalf("%q is taken for %+v", header, principal)
			}
			return
		}
		if !known(err) {
			t.Fatalf("%q: %v", header, err)
		}
		if principal.Subject != "" && !errors.Is(err, auth.ErrScope) {
			t.Fatalf("%q is refused and names %+v", header, principal)
		}
		if len(header) > 40 && (strings.Contains(err.Error(), header) || strings.Contains(log.String(), header)) {
			t.Fatalf("the error or the log repeats what was sent: %v", err)
		}
	})
}

// FuzzClaims: whatever an issuer signs, the caller is whom the claims name, for this endpoint and this time, or nobody.
func FuzzClaims(f *testing.F) {
	key := oidctest.ECDSA(f, "first")
	sources, _ := fuzzed(f, key)
	for _, seed := range []string{
		claimsOf(nil), claimsOf(map[string]any{"aud": []string{"x", audience}, "groups": []string{"a"}, "scp": []any{1}}),
		claimsOf(map[string]any{"sub": nil}), claimsOf(map[string]any{"exp": 1e300}), claimsOf(map[string]any{"exp": "tomorrow", "nbf": -1}),
		claimsOf(map[string]any{"groups": map[string]any{}}), `{"iss":"` + fuzzedIssuer + `","iss":"x","sub":"a","sub":"b"}`,
		`{"iss":"` + fuzzedIssuer + `","Sub":"a","SUB":"b","aud":"` + audience + `","exp":9999999999}`, `[]`, `null`, `7`, ``,
	} {
		f.Add(seed)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: key.Algorithm, Key: jose.JSONWebKey{Key: key.Private, KeyID: key.ID}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		signed, err := signer.Sign([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		principal, err := authenticate(sources, "Bearer "+token)
		if err != nil {
			if !known(err) {
				t.Fatalf("%q: %v", payload, err)
			}
			return
		}
		var claims struct {
			Iss, Sub string
			Aud      any
			Exp      float64
		}
		if err := json.Unmarshal([]byte(payload), &claims); err != nil {
			t.Fatalf("%q names %+v: %v", payload, principal, err)
		}
		audiences, _ := claims.Aud.([]any)
		if claims.Iss != fuzzedIssuer || claims.Aud != audience && !slices.Contains(audiences, any(audience)) || claims.Exp < float64(time.Now().Add(-skew).Unix()) {
			t.Fatalf("%q is taken for %+v", payload, principal)
		}
		if principal.Subject == "" || principal.Issuer != fuzzedIssuer || principal.User != "oidc:"+principal.Subject || !isName(principal.Subject) {
			t.Fatalf("%q names %+v", payload, principal)
		}
	})
}

// FuzzKeySet: whatever an issuer publishes as its keys, it lets nobody in who did not sign with one of them, and spoils
// nothing for those who did.
func FuzzKeySet(f *testing.F) {
	key, mallory := oidctest.ECDSA(f, "first"), oidctest.ECDSA(f, "first")
	good, forged := oidctest.Sign(f, key, goodClaims(), nil), oidctest.Sign(f, mallory, goodClaims(), nil)
	for _, seed := range []string{`{"keys":[]}`, `{}`, `{"keys":[{}]}`, `{"keys":null}`, `{"keys":[{"kty":"oct","k":"AA","kid":"first"}]}`, `{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB","kid":"first"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"first"}]}`, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		set := &jose.JSONWebKeySet{}
		if json.Unmarshal(document, set) != nil {
			return
		}
		for token, published := range map[string][]jose.JSONWebKey{good: append(set.Keys, key.Public()), forged: set.Keys} {
			k := &keys{read: func(context.Context) (*jose.JSONWebKeySet, error) { return &jose.JSONWebKeySet{Keys: published}, nil },
				now: time.Now, log: slog.New(slog.DiscardHandler)}
			configs := []Config{{Issuer: fuzzedIssuer}}
			if err := Check(configs); err != nil {
				t.Fatal(err)
			}
			issuer := New(configs[0], nil, k.log)
			issuer.keys = k
			_, err := authenticate(auth.Sources{Issuers: map[string]auth.Authenticator{fuzzedIssuer: issuer}}, "Bearer "+token)
			if err == nil && token == forged {
				t.Fatalf("%s lets a stranger in", document)
			}
			if err != nil && !known(err) {
				t.Fatalf("%s: %v", document, err)
			}
		}
	})
}
