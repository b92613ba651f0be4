package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// KeyPrefix begins every API key: by it a key is told from a token, and found by those who look for leaked secrets.
const KeyPrefix = "mcptask_"

// Sources are the sources of identities of a bridge, any of which may be missing. Each of a caller's credentials belongs to
// one of them, which alone is asked: no source takes what another refuses, or does without one that does not answer.
type Sources struct {
	// Issuers check the tokens that name them in the claim iss.
	Issuers map[string]Authenticator
	// Keys knows what begins with KeyPrefix.
	Keys Authenticator
	// Cluster is asked about every other token.
	Cluster Authenticator
	// Anonymous takes every caller without credentials for one and the same: all share one another's tasks. A caller who
	// does carry credentials is never stripped of its name.
	Anonymous bool
}

// Authenticate implements Authenticator.
func (s Sources) Authenticate(ctx context.Context, r Request) (Principal, error) {
	if len(r.Header.Values("Authorization")) == 0 {
		if s.Anonymous {
			return Principal{Identity: v1alpha1.Identity{Issuer: anonymous, Subject: anonymous}, User: AnonymousUser}, nil
		}
		return Principal{}, ErrNoCredentials
	}
	token, ok := Bearer(r.Header)
	if !ok {
		return Principal{}, Refused("no bearer token, or not one alone")
	}
	source := s.Cluster
	if strings.HasPrefix(token, KeyPrefix) {
		source = s.Keys
	} else if issuer, ok := s.Issuers[issuerOf(token)]; ok {
		source = issuer
	}
	if source == nil {
		return Principal{}, Refused("no source of identities here knows such credentials")
	}
	principal, err := source.Authenticate(ctx, r)
	if err == nil && (principal.Issuer == "" || principal.Subject == "" || len(principal.Subject) > MaxSubject) {
		return Principal{}, Refused("the caller has no name, or too long a one")
	}
	return principal, err
}

// issuerOf is the issuer that a JSON Web Token names. Nothing is known about the token by it: it says whom to ask.
func issuerOf(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, ok := strings.Cut(rest, ".")
	if !ok {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
