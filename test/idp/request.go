package main

import (
	"context"
	"net/http"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// request is a person's way to a token, from the client's request on.
type request struct {
	oidc.AuthRequest
	id, resource, user string
	at                 time.Time
}

func (r *request) GetID() string          { return r.id }
func (r *request) GetACR() string         { return "" }
func (r *request) GetAMR() []string       { return nil }
func (r *request) GetAuthTime() time.Time { return r.at }
func (r *request) GetClientID() string    { return r.ClientID }
func (r *request) GetNonce() string       { return r.Nonce }
func (r *request) GetScopes() []string    { return r.Scopes }
func (r *request) GetSubject() string     { return r.user }
func (r *request) Done() bool             { return r.user != "" }

// GetAudience is the resource that the client named, or the client itself where it named none.
func (r *request) GetAudience() []string {
	if r.resource == "" {
		return []string{r.ClientID}
	}
	return []string{r.resource}
}

func (r *request) GetCodeChallenge() *oidc.CodeChallenge {
	if r.CodeChallenge == "" {
		return nil
	}
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}

// resourceKey is where a request's context has the parameter resource, which the library does not read.
type resourceKey struct{}

func keepResource(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), resourceKey{}, r.FormValue("resource"))))
	})
}
