// Package oidctest is an OpenID Connect issuer for tests: it publishes keys and signs what a test asks for, right or wrong.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer is an issuer that runs until the test ends.
type Issuer struct {
	// URL of the issuer, and CertificateAuthority that vouches for it, in PEM.
	URL, CertificateAuthority string
	// Fetches counts the requests for keys.
	Fetches atomic.Int64
	// Down makes the issuer answer nothing but errors.
	Down atomic.Bool

	mu        sync.Mutex
	key       Key
	published []jose.JSONWebKey
	metadata  map[string]any
}

// Key is a private key and what is said about it.
type Key struct {
	ID        string
	Algorithm jose.SignatureAlgorithm
	Private   crypto.Signer
}

// Public is the key as an issuer publishes it.
func (k Key) Public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.Private.Public(), KeyID: k.ID, Algorithm: string(k.Algorithm), Use: "sig"}
}

// RSA makes a key.
func RSA(t testing.TB, id string, bits int) Key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, jose.RS256, private}
}

// ECDSA makes a key.
func ECDSA(t testing.TB, id string) Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, jose.ES256, private}
}

// New starts an issuer with one key.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, what func() any) {
		if i.Down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(what()); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, func() any { return i.metadata })
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.Fetches.Add(1)
		answer(w, func() any { return jose.JSONWebKeySet{Keys: i.published} })
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are part of the tests
	server.StartTLS()
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.CertificateAuthority = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	i.metadata = map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
	i.Rotate(ECDSA(t, "first"))
	return i
}

// Rotate signs with another key from now on, and publishes that one and the others given.
func (i *Issuer) Rotate(key Key, others ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.published = key, append([]jose.JSONWebKey{key.Public()}, others...)
}

// Describe changes what the issuer says about itself.
func (i *Issuer) Describe(field string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.metadata[field] = value
}

// Key is the key that the issuer signs with.
func (i *Issuer) Key() Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.key
}

// Claims are those of a good token for an audience; changed are set, or left out where they are nil.
func (i *Issuer) Claims(subject, audience string, changed map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "sub": subject, "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, changed)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Token is a good token for an audience, with claims changed.
func (i *Issuer) Token(t testing.TB, subject, audience string, changed map[string]any) string {
	t.Helper()
	return Sign(t, i.Key(), i.Claims(subject, audience, changed), map[jose.HeaderKey]any{"typ": "at+jwt"})
}

// Sign makes a token of claims with a key, whosever it is.
func Sign(t testing.TB, key Key, claims any, header map[jose.HeaderKey]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: key.Algorithm, Key: jose.JSONWebKey{Key: key.Private, KeyID: key.ID}}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
