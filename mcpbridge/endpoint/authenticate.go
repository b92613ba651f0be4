package endpoint

import (
	"errors"
	"net/http"
	"strings"

	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// authenticate finds out who calls, or challenges the caller to say so (2026-07-28, Authorization; RFC 6750, 3).
func (e *Endpoint) authenticate(x *exchange) *wire.Error {
	if strings.Contains(x.http.URL.RawQuery, "access_token") {
		e.challenge(x, `error="invalid_request"`)
		e.deny(x, "", "a token in the URL")
		return status(http.StatusBadRequest, "a token belongs into the Authorization header, never into the URL: take it for leaked")
	}
	principal, err := e.identify(x)
	if err == nil {
		x.principal = principal
		return nil
	}
	switch {
	case errors.Is(err, auth.ErrNoCredentials):
		e.challenge(x)
		return e.unidentified(x, "missing", err, http.StatusUnauthorized, "authentication is required")
	case errors.Is(err, auth.ErrRefused):
		e.challenge(x, `error="invalid_token"`)
		return e.unidentified(x, "refused", err, http.StatusUnauthorized, "the credentials are not accepted")
	case errors.Is(err, auth.ErrScope):
		x.principal = principal
		e.challenge(x, `error="insufficient_scope"`)
		return e.unidentified(x, "scope", err, http.StatusForbidden, "the token lacks a scope; needed are: "+strings.Join(e.Scopes, " "))
	}
	e.Metrics.authFailures.WithLabelValues("unavailable").Inc()
	return e.unavailable(x, err)
}

func (e *Endpoint) unidentified(x *exchange, reason string, err error, code int, message string) *wire.Error {
	e.Metrics.authFailures.WithLabelValues(reason).Inc()
	e.deny(x, "", err.Error())
	return status(code, message)
}

func (e *Endpoint) identify(x *exchange) (auth.Principal, error) {
	return e.Authenticator.Authenticate(x.http.Context(), auth.Request{Header: x.http.Header, Namespace: x.namespace, Audiences: x.audiences})
}

// challenge says how to get in: where the metadata of this endpoint is, and which scopes are needed, all at once.
func (e *Endpoint) challenge(x *exchange, parameters ...string) {
	if len(e.AuthorizationServers) > 0 {
		parameters = append(parameters, `resource_metadata="`+e.metadataURL(x.http.URL.Path)+`"`)
	}
	if len(e.Scopes) > 0 {
		parameters = append(parameters, `scope="`+strings.Join(e.Scopes, " ")+`"`)
	}
	x.w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(parameters, ", ")))
}

// disowned says whether the caller of an open stream is no longer who it was. A source of identities that does not answer
// changes nothing.
func (e *Endpoint) disowned(x *exchange) bool {
	principal, err := e.identify(x)
	if errors.Is(err, auth.ErrRefused) || errors.Is(err, auth.ErrScope) || err == nil && principal.Identity != x.principal.Identity {
		e.deny(x, "", "the credentials of an open stream are no longer accepted")
		return true
	}
	return false
}
