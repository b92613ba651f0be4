//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
	"github.com/mcptask/mcptask/test/harness"
)

// authority is a certificate authority for one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM of the certificate.
	PEM string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.certificate = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key, a.PEM, _ = a.sign(t, a.certificate)
	return a
}

// vouch makes a certificate for a name, and its key, both in PEM.
func (a *authority) vouch(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	_, certificate, key = a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return certificate, key
}

func (a *authority) sign(t *testing.T, template *x509.Certificate) (key *ecdsa.PrivateKey, certificatePEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return key, encode("CERTIFICATE", raw), encode("PRIVATE KEY", pkcs8)
}

// provider is the OpenID Connect provider that runs in the cluster.
type provider struct {
	issuer string
	key    oidctest.Key
	// address and keysAddress are where it is reached from here, and where it is given its keys.
	address, keysAddress string
	// http reaches it by its name.
	http *http.Client
	// tokens are all that it gave.
	tokens []string
}

// startProvider runs the provider in a namespace of its own, with TLS of the authority.
func startProvider(t *testing.T, cluster *harness.Cluster, vouching *authority) *provider {
	t.Helper()
	namespace := cluster.Namespace(t)
	host := "idp." + namespace + ".svc.cluster.local"
	p := &provider{issuer: "https://" + host}
	certificate, key := vouching.vouch(t, host)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "idp-tls", Namespace: namespace}, Type: corev1.SecretTypeTLS,
		StringData: map[string]string{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}}
	if err := cluster.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile("idp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, namespace, strings.ReplaceAll(string(manifests), "ISSUER", p.issuer))
	kubectl(t, "", "-n", namespace, "wait", "pod/idp", "--for=condition=Ready", "--timeout=2m")
	p.address, p.keysAddress = harness.Forward(t, namespace, "pod/idp", 8443), harness.Forward(t, namespace, "pod/idp", 8081)
	p.rotate(t, oidctest.ECDSA(t, "first"))
	return p
}

// rotate makes the provider sign with a key, and publish that one and the others given.
func (p *provider) rotate(t *testing.T, key oidctest.Key, others ...jose.JSONWebKey) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"sign":    jose.JSONWebKey{Key: key.Private, KeyID: key.ID, Algorithm: string(key.Algorithm)},
		"publish": append([]jose.JSONWebKey{key.Public()}, others...),
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post("http://"+p.keysAddress, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("the provider's keys: HTTP %d", answer.StatusCode)
	}
	p.key = key
}

// reach makes a client that trusts the authority and finds hosts at these addresses, as if a name server named them.
func reach(t *testing.T, vouching *authority, addresses map[string]string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(vouching.PEM)) {
		t.Fatal("the authority's certificate is none")
	}
	dialer := &net.Dialer{}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to, ok := addresses[address]
			if !ok {
				return nil, fmt.Errorf("nobody is at %s", address)
			}
			return dialer.DialContext(ctx, network, to)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// authorize gets a person a token in the way of MCP clients, from the refusal that the endpoint answered with: the metadata
// of the resource, that of its authorization server, and an authorization code with PKCE for the resource (2026-07-28,
// Authorization). scopes replace those that the refusal asks for, unless they are nil.
func (p *provider) authorize(t *testing.T, refusal *http.Response, person, oauthClient string, scopes []string) string {
	t.Helper()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{ClientID: oauthClient, Issuer: p.issuer},
		RedirectURL:         "http://127.0.0.1/callback",
		Client:              p.http,
		ScopeFilter: func(asked []string) []string {
			if scopes != nil {
				return scopes
			}
			return append(asked, "openid")
		},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			return p.logIn(ctx, args.URL, person)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := handler.Authorize(t.Context(), refusal.Request, refusal); err != nil {
		t.Fatalf("no token for %s: %v", person, err)
	}
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	p.tokens = append(p.tokens, token.AccessToken)
	return token.AccessToken
}

// logIn is the person's browser: it follows the provider's redirects, says a name at the login page, and ends where the
// client is told the code.
func (p *provider) logIn(ctx context.Context, address, person string) (*auth.AuthorizationResult, error) {
	browser := &http.Client{Transport: p.http.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for range 10 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		answer, err := browser.Do(request)
		if err != nil {
			return nil, err
		}
		_ = answer.Body.Close() // nothing in it is needed
		next, err := answer.Location()
		if err != nil {
			return nil, fmt.Errorf("%s answers %s: %w", address, answer.Status, err)
		}
		if next.Hostname() == "127.0.0.1" {
			if problem := next.Query().Get("error"); problem != "" {
				return nil, fmt.Errorf("%s: %s", problem, next.Query().Get("error_description"))
			}
			return &auth.AuthorizationResult{Code: next.Query().Get("code"), State: next.Query().Get("state"), Iss: next.Query().Get("iss")}, nil
		}
		if next.Path == "/login" {
			next.RawQuery += "&user=" + url.QueryEscape(person)
		}
		address = next.String()
	}
	return nil, errors.New("the provider redirects for ever")
}
