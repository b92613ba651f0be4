// Package oidc identifies callers by the access tokens of OpenID Connect issuers, whose keys it reads by discovery.
package oidc

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"sigs.k8s.io/yaml"
)

// Config is an issuer whose access tokens are accepted.
type Config struct {
	// Issuer is its URL, letter by letter what its tokens have in the claim iss. Below it is
	// /.well-known/openid-configuration.
	Issuer string `json:"issuer"`
	// SubjectClaim is the claim that names the caller, for good and no other: sub when empty. With email, the claim
	// email_verified must be true.
	SubjectClaim string `json:"subjectClaim,omitempty"`
	// GroupsClaim is the claim with the caller's groups, a string or a list of strings; none when empty.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	// UserPrefix and GroupsPrefix come before the names that the caller and its groups have in the cluster's RBAC; both are
	// "oidc:" when empty. No two issuers may have the same.
	UserPrefix   string `json:"userPrefix,omitempty"`
	GroupsPrefix string `json:"groupsPrefix,omitempty"`
	// Algorithms are the signature algorithms that are accepted; when empty, all those of Algorithms.
	Algorithms []string `json:"algorithms,omitempty"`
	// CertificateAuthority is the PEM of the authorities that vouch for the issuer's address; those of the system when empty.
	CertificateAuthority string `json:"certificateAuthority,omitempty"`
}

// Algorithms are the signature algorithms that can be accepted: those with a public key that is no secret (RFC 8725, 3.1).
var Algorithms = []string{
	string(jose.RS256), string(jose.RS384), string(jose.RS512), string(jose.PS256), string(jose.PS384), string(jose.PS512),
	string(jose.ES256), string(jose.ES384), string(jose.ES512), string(jose.EdDSA),
}

const (
	defaultSubjectClaim = "sub"
	emailClaim          = "email"
	defaultPrefix       = "oidc:"
	maxIssuer           = 512 // what an McpTask can hold
)

// reservedPrefixes are names that issuers must not be able to give.
var reservedPrefixes = []string{"system:", "mcptask:", "apikey:"}

// Load reads a file with a list of issuers, as YAML or JSON, and checks it.
func Load(file string) ([]Config, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // a file that whoever installs the bridge names
	if err != nil {
		return nil, fmt.Errorf("reading the issuers: %w", err)
	}
	var issuers []Config
	if err := yaml.UnmarshalStrict(raw, &issuers); err != nil {
		return nil, fmt.Errorf("the issuers in %s: %w", file, err)
	}
	err = Check(issuers)
	if len(issuers) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("the issuers in %s: %w", file, err)
	}
	return issuers, nil
}

// Check says what is wrong with issuers, and sets what they leave to the default.
func Check(issuers []Config) error {
	var faults []error
	for i := range issuers {
		c := &issuers[i]
		for field, otherwise := range map[*string]string{&c.SubjectClaim: defaultSubjectClaim, &c.UserPrefix: defaultPrefix, &c.GroupsPrefix: defaultPrefix} {
			if *field == "" {
				*field = otherwise
			}
		}
		if len(c.Algorithms) == 0 {
			c.Algorithms = Algorithms
		}
		if err := c.check(); err != nil {
			faults = append(faults, fmt.Errorf("issuer %q: %w", c.Issuer, err))
		}
		for _, other := range issuers[:i] {
			switch {
			case other.Issuer == c.Issuer:
				faults = append(faults, fmt.Errorf("issuer %q: is listed twice", c.Issuer))
			case overlap(other.UserPrefix, c.UserPrefix) || overlap(other.GroupsPrefix, c.GroupsPrefix):
				faults = append(faults, fmt.Errorf("issuers %q and %q: neither userPrefix nor groupsPrefix of one may begin that of the other: "+
					"each could name the other's callers", other.Issuer, c.Issuer))
			}
		}
	}
	return errors.Join(faults...)
}

func (c *Config) check() error {
	u, err := url.Parse(c.Issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(c.Issuer, "#") || len(c.Issuer) > maxIssuer {
		return errors.New("issuer must be a URL without query and fragment, of at most 512 characters")
	}
	if !trustworthy(u) {
		return errors.New("issuer must be an https URL")
	}
	for _, prefix := range []string{c.UserPrefix, c.GroupsPrefix} {
		for _, reserved := range reservedPrefixes {
			if overlap(prefix, reserved) {
				return fmt.Errorf("the prefix %q could name %s…", prefix, reserved)
			}
		}
	}
	for _, algorithm := range c.Algorithms {
		if !slices.Contains(Algorithms, algorithm) {
			return fmt.Errorf("algorithm %q is not one of %s", algorithm, strings.Join(Algorithms, ", "))
		}
	}
	if c.CertificateAuthority != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CertificateAuthority)) {
		return errors.New("certificateAuthority holds no certificate in PEM")
	}
	return nil
}

// overlap says whether something may begin with both.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// trustworthy says whether what is read from a URL comes from whom it names: over TLS, or from this very machine.
func trustworthy(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && ip != nil && ip.IsLoopback()
}
