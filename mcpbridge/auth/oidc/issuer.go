package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
)

// skew is how much the issuer's clock and ours may differ.
const skew = time.Minute

// Issuer identifies callers by the access tokens of one issuer.
type Issuer struct {
	config     Config
	algorithms []jose.SignatureAlgorithm
	scopes     []string
	keys       *keys
	now        func() time.Time
}

// New makes a source of identities of an issuer that Check has passed. Every token must have the scopes. The issuer is first
// asked for its keys when a token comes: one that does not answer keeps nobody else waiting.
func New(config Config, scopes []string, log *slog.Logger) *Issuer {
	i := &Issuer{config: config, scopes: scopes, now: time.Now}
	for _, algorithm := range config.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	i.keys = &keys{read: newProvider(&config).keys, now: func() time.Time { return i.now() }, log: log.With("issuer", config.Issuer)}
	return i
}

// Authenticate implements auth.Authenticator (OAuth 2.1, 5.2; RFC 8725; RFC 9068, 4).
func (i *Issuer) Authenticate(ctx context.Context, r auth.Request) (auth.Principal, error) {
	token, ok := auth.Bearer(r.Header)
	if !ok {
		return auth.Principal{}, auth.ErrNoCredentials
	}
	parsed, err := jwt.ParseSigned(token, i.algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return auth.Principal{}, auth.Refused("the token is malformed, or signed in a way that is not accepted")
	}
	header := parsed.Headers[0]
	if !isAccessToken(header.ExtraHeaders[jose.HeaderType]) {
		return auth.Principal{}, auth.Refused("the token is of a type that is no access token")
	}
	key, err := i.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return auth.Principal{}, err
	}
	var claims jwt.Claims
	further := map[string]json.RawMessage{}
	if err := parsed.Claims(key, &claims, &further); err != nil {
		return auth.Principal{}, auth.Refused("the token's signature or its claims are wrong")
	}
	if why := i.refuses(&claims, r.Audiences); why != "" {
		return auth.Principal{}, auth.Refused(why)
	}
	principal, why := i.principal(further)
	if why != "" {
		return auth.Principal{}, auth.Refused(why)
	}
	granted := scopes(further)
	for _, scope := range i.scopes {
		if !slices.Contains(granted, scope) {
			return principal, auth.ErrScope
		}
	}
	return principal, nil
}

// isAccessToken leaves out what else an issuer signs: tokens of other kinds say so (RFC 8725, 3.11).
func isAccessToken(kind any) bool {
	text, _ := kind.(string)
	switch strings.TrimPrefix(strings.ToLower(text), "application/") {
	case "", "jwt", "at+jwt":
		return true
	}
	return false
}

// refuses says what is wrong with the claims that every token must have.
func (i *Issuer) refuses(claims *jwt.Claims, audiences []string) string {
	if len(audiences) == 0 || claims.Expiry == nil {
		return "the token never expires"
	}
	expected := jwt.Expected{Issuer: i.config.Issuer, AnyAudience: audiences, Time: i.now()}
	switch err := claims.ValidateWithLeeway(expected, skew); {
	case err == nil:
		return ""
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "the token names another issuer"
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "the token was made for another audience"
	case errors.Is(err, jwt.ErrExpired):
		return "the token has expired"
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return "the token is not valid yet"
	default:
		return "the token's claims do not hold"
	}
}

// principal is the caller whom the claims name.
func (i *Issuer) principal(claims map[string]json.RawMessage) (auth.Principal, string) {
	var subject string
	if json.Unmarshal(claims[i.config.SubjectClaim], &subject) != nil || !isName(subject) {
		return auth.Principal{}, "the token names no subject"
	}
	if i.config.SubjectClaim == emailClaim && string(claims["email_verified"]) != "true" {
		return auth.Principal{}, "the token's email is not verified"
	}
	principal := auth.Principal{
		Identity: v1alpha1.Identity{Issuer: i.config.Issuer, Subject: subject},
		User:     i.config.UserPrefix + subject,
	}
	if raw, ok := claims[i.config.GroupsClaim]; ok && i.config.GroupsClaim != "" {
		groups, ok := texts(raw)
		if !ok {
			return auth.Principal{}, "the token's groups are neither a string nor a list of strings"
		}
		for _, group := range groups {
			principal.Groups = append(principal.Groups, i.config.GroupsPrefix+group)
		}
	}
	return principal, ""
}

// isName says whether a text can name somebody, in logs too.
func isName(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= auth.MaxSubject && !strings.ContainsFunc(text, unicode.IsControl)
}

// scopes are those that the token was given, in either of the claims that issuers use (RFC 9068, 2.2.3).
func scopes(claims map[string]json.RawMessage) (granted []string) {
	for _, claim := range []string{"scope", "scp"} {
		listed, _ := texts(claims[claim])
		for _, text := range listed {
			granted = append(granted, strings.Fields(text)...)
		}
	}
	return granted
}

// texts reads a claim that is a string or a list of strings.
func texts(raw json.RawMessage) ([]string, bool) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, true
	}
	var list []string
	return list, json.Unmarshal(raw, &list) == nil
}
