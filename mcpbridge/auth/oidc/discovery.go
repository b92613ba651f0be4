package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTimeout bounds one request to an issuer.
	fetchTimeout = 5 * time.Second
	// maxDocument bounds what an issuer answers.
	maxDocument = 1 << 20
	// maxRedirects bounds where an issuer may send us.
	maxRedirects = 3
)

// provider reads what an issuer publishes.
type provider struct {
	issuer string
	client *http.Client
}

func newProvider(c *Config) *provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.CertificateAuthority != "" {
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM([]byte(c.CertificateAuthority)) // Check has seen that it holds some
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	}
	return &provider{issuer: c.Issuer, client: &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects || !trustworthy(next.URL) {
				return errors.New("leads elsewhere, too often or without TLS")
			}
			return nil
		},
	}}
}

// keys reads the issuer's keys, wherever it publishes them now (OpenID Connect Discovery 1.0, 4).
func (p *provider) keys(ctx context.Context) (*jose.JSONWebKeySet, error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := p.get(ctx, strings.TrimSuffix(p.issuer, "/")+"/.well-known/openid-configuration", &metadata); err != nil {
		return nil, err
	}
	if metadata.Issuer != p.issuer { // 4.3
		return nil, fmt.Errorf("the issuer calls itself %q", metadata.Issuer)
	}
	u, err := url.Parse(metadata.JWKSURI)
	if err != nil || !trustworthy(u) {
		return nil, fmt.Errorf("jwks_uri %q is not an https URL", metadata.JWKSURI)
	}
	set := &jose.JSONWebKeySet{}
	if err := p.get(ctx, metadata.JWKSURI, set); err != nil {
		return nil, err
	}
	return set, nil
}

func (p *provider) get(ctx context.Context, address string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	request.Header.Set("Accept", "application/json")
	answer, err := p.client.Do(request)
	if err != nil {
		return err // names the address
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = fmt.Errorf("more than %d bytes", maxDocument)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}
