package oidc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
)

func TestAKeyIsRotatedWhileTheBridgeRuns(t *testing.T) {
	f := newFixture(t, nil)
	old := f.good(t)
	if _, err := f.show(t, old); err != nil {
		t.Fatal(err)
	}
	f.pass(retryAfter)
	f.provider.Rotate(oidctest.RSA(t, "second", 2048))
	if _, err := f.show(t, f.good(t)); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := f.show(t, old); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("the key that was taken back: %v", err)
	}
}

// A key that its issuer takes back is forgotten although no token with a new one comes, and although none at all came for
// long: nobody gets in with it just because he is the first.
func TestAKeyThatWasTakenBackIsForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		pass     time.Duration
		straight bool
	}{
		"while others call":   {renewAfter, false}, // those who come while the keys are read still get in
		"after a quiet while": {refreshAfter, true},
		"after a quiet night": {12 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			old := f.provider.Token(t, "alice", audience, map[string]any{"exp": time.Now().Add(100 * time.Hour).Unix()})
			if _, err := f.show(t, old); err != nil {
				t.Fatal(err)
			}
			f.provider.Rotate(oidctest.ECDSA(t, "second"))
			f.pass(tc.pass)
			deadline := time.Now().Add(10 * time.Second)
			for _, err := f.show(t, old); err == nil; _, err = f.show(t, old) {
				if tc.straight || time.Now().After(deadline) {
					t.Fatal("the old key still works")
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// Keys that are old are waited for, but not those of an issuer that has just failed: its callers would wait each time.
func TestAnIssuerThatFailsKeepsItsCallersWaitingOnce(t *testing.T) {
	f := newFixture(t, nil)
	token := f.provider.Token(t, "alice", audience, map[string]any{"exp": time.Now().Add(100 * time.Hour).Unix()})
	if _, err := f.show(t, token); err != nil {
		t.Fatal(err)
	}
	read, hang := f.keys.read, make(chan struct{})
	failing := errors.New("the issuer hangs")
	f.keys.read = func(context.Context) (*jose.JSONWebKeySet, error) { return nil, failing }
	f.pass(refreshAfter)
	if _, err := f.show(t, token); err != nil {
		t.Errorf("with keys that are known: %v", err)
	}
	f.keys.read = func(context.Context) (*jose.JSONWebKeySet, error) { <-hang; return nil, failing }
	for range 3 {
		f.pass(retryAfter)
		if _, err := f.show(t, token); err != nil { // it would wait for ever
			t.Errorf("while the issuer hangs: %v", err)
		}
	}
	close(hang)
	<-f.keys.refresh() // the end of the one that hung
	f.keys.read = read
	f.provider.Rotate(oidctest.ECDSA(t, "second"))
	f.pass(refreshAfter)
	if _, err := f.show(t, token); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("long after the failure, with a key that was taken back: %v", err)
	}
}

func TestUnknownKeysDoNotWearTheIssuerOut(t *testing.T) {
	f := newFixture(t, nil)
	if _, err := f.show(t, f.good(t)); err != nil {
		t.Fatal(err)
	}
	mallory := oidctest.ECDSA(t, "")
	for i := range 200 {
		mallory.ID = "key-" + strings.Repeat("x", i)
		if _, err := f.show(t, oidctest.Sign(t, mallory, f.provider.Claims("alice", audience, nil), nil)); !errors.Is(err, auth.ErrRefused) {
			t.Fatal(err)
		}
	}
	if n := f.provider.Fetches.Load(); n != 1 {
		t.Errorf("%d requests for keys", n)
	}
	f.pass(retryAfter)
	mallory.ID = "later"
	_, _ = f.show(t, oidctest.Sign(t, mallory, f.provider.Claims("alice", audience, nil), nil))
	if n := f.provider.Fetches.Load(); n != 2 {
		t.Errorf("%d requests for keys, later", n)
	}
}

func TestAnIssuerThatIsDownLetsNobodyInAndKeepsWhatItSaid(t *testing.T) {
	f := newFixture(t, nil)
	f.provider.Down.Store(true)
	if _, err := f.show(t, f.good(t)); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("before its keys are known: %v", err)
	}
	if !strings.Contains(f.log.String(), f.provider.URL) {
		t.Errorf("the log does not name it: %s", f.log)
	}
	f.provider.Down.Store(false)
	f.pass(retryAfter)
	token := f.provider.Token(t, "alice", audience, map[string]any{"exp": time.Now().Add(100 * time.Hour).Unix()})
	if _, err := f.show(t, token); err != nil {
		t.Fatal(err)
	}
	f.provider.Down.Store(true)
	f.pass(refreshAfter)
	if _, err := f.show(t, token); err != nil {
		t.Errorf("with keys that are known: %v", err)
	}
	f.pass(retryAfter)
	if _, err := f.show(t, oidctest.Sign(t, oidctest.ECDSA(t, "unknown"), f.provider.Claims("alice", audience, nil), nil)); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("with a key that is not: %v", err)
	}
	f.pass(usableFor)
	if _, err := f.show(t, token); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("after a day: %v", err)
	}
}

func TestKeysThatAreNotForThis(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	for name, publish := range map[string]func(oidctest.Key) jose.JSONWebKey{
		"for encryption":        func(k oidctest.Key) jose.JSONWebKey { p := k.Public(); p.Use = "enc"; return p },
		"for another algorithm": func(k oidctest.Key) jose.JSONWebKey { p := k.Public(); p.Algorithm = "ES384"; return p },
		"a secret":              func(k oidctest.Key) jose.JSONWebKey { return jose.JSONWebKey{Key: secret, KeyID: k.ID} },
		"a private one":         func(k oidctest.Key) jose.JSONWebKey { return jose.JSONWebKey{Key: k.Private, KeyID: k.ID} },
	} {
		f := newFixture(t, nil)
		odd := oidctest.ECDSA(t, "odd")
		f.provider.Rotate(f.provider.Key(), publish(odd))
		if _, err := f.show(t, oidctest.Sign(t, odd, f.provider.Claims("alice", audience, nil), nil)); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.show(t, f.good(t)); err != nil {
			t.Errorf("%s spoils the others: %v", name, err)
		}
	}
	f := newFixture(t, nil)
	f.provider.Rotate(oidctest.RSA(t, "short", 1024))
	if _, err := f.show(t, f.good(t)); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("a short key: %v", err)
	}
}

func TestATokenWithoutAKeyIDNeedsTheKeyToBeClear(t *testing.T) {
	f := newFixture(t, nil)
	key := f.provider.Key()
	nameless := key
	nameless.ID = ""
	token := oidctest.Sign(t, nameless, f.provider.Claims("alice", audience, nil), nil)
	if _, err := f.show(t, token); err != nil {
		t.Errorf("the only key: %v", err)
	}
	f.provider.Rotate(key, oidctest.ECDSA(t, "second").Public())
	f.pass(refreshAfter + usableFor)
	if _, err := f.show(t, f.good(t)); !errors.Is(err, auth.ErrRefused) { // it has expired by now, and its key was read
		t.Error(err)
	}
	if _, err := f.show(t, token); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("one of two keys: %v", err)
	}
}

func TestWhatAnIssuerSaysAboutItself(t *testing.T) {
	for name, describe := range map[string]func(*oidctest.Issuer){
		"another name":              func(i *oidctest.Issuer) { i.Describe("issuer", "https://other.example.com") },
		"no name":                   func(i *oidctest.Issuer) { i.Describe("issuer", nil) },
		"keys without TLS":          func(i *oidctest.Issuer) { i.Describe("jwks_uri", "http://keys.example.com/keys") },
		"keys in a file":            func(i *oidctest.Issuer) { i.Describe("jwks_uri", "file:///etc/passwd") },
		"no keys":                   func(i *oidctest.Issuer) { i.Describe("jwks_uri", nil) },
		"keys that are not there":   func(i *oidctest.Issuer) { i.Describe("jwks_uri", i.URL+"/none") },
		"keys that are no key set":  func(i *oidctest.Issuer) { i.Describe("jwks_uri", i.URL+"/.well-known/openid-configuration") },
		"more than anybody can say": func(i *oidctest.Issuer) { i.Describe("more", strings.Repeat("x", maxDocument)) },
	} {
		f := newFixture(t, nil)
		describe(f.provider)
		if _, err := f.show(t, f.good(t)); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stranger := newFixture(t, func(c *Config) { c.CertificateAuthority = "" })
	if _, err := stranger.show(t, stranger.good(t)); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("an authority that nobody knows: %v", err)
	}
}

// A caller who leaves does not wait, and does not spoil the answer for the others.
func TestACallerWhoLeaves(t *testing.T) {
	f := newFixture(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := f.Authenticate(ctx, auth.Request{Header: http.Header{"Authorization": {"Bearer " + f.good(t)}}, Audiences: []string{audience}})
	if err != nil && !errors.Is(err, auth.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := f.show(t, f.good(t)); err != nil {
		t.Error(err)
	}
}
