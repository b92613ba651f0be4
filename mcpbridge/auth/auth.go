// Package auth finds out who calls.
package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Principal is a caller that was identified.
type Principal struct {
	v1alpha1.Identity
	// Groups of the caller, as the source of the identity knows them.
	Groups []string
	// PodUID is the Pod that the token is bound to, where there is one.
	PodUID types.UID
}

// String names the principal for logs and for spec.cancel.by.
func (p Principal) String() string {
	if p.Subject == "" {
		return "unidentified"
	}
	return p.Issuer + ":" + p.Subject
}

// Owns says whether the task is this caller's. A task without an owner is nobody's.
func (p Principal) Owns(task *v1alpha1.McpTask) bool {
	return task.Spec.Owner != nil && *task.Spec.Owner == p.Identity
}

// anonymous is the issuer of the one caller that all without credentials are.
const anonymous = "anonymous"

// Anonymous says that the caller cannot be told from others.
func (p Principal) Anonymous() bool { return p.Issuer == anonymous }

// Request is what an Authenticator looks at.
type Request struct {
	// Header of the HTTP request.
	Header http.Header
	// Audiences for which a token may have been made: the URLs of the endpoint that is called.
	Audiences []string
}

// Authenticator is a source of identities.
type Authenticator interface {
	// Authenticate finds the caller. The error is ErrNoCredentials when the request has none for this source,
	// ErrRefused when it has some that are not good, and ErrUnavailable when they cannot be checked now.
	Authenticate(ctx context.Context, r Request) (Principal, error)
}

var (
	// ErrNoCredentials means that the request says nothing about its caller.
	ErrNoCredentials = errors.New("the request carries no credentials")
	// ErrRefused means that what the request carries identifies nobody here.
	ErrRefused = errors.New("the credentials are not accepted")
	// ErrUnavailable means that the source of the identity does not answer.
	ErrUnavailable = errors.New("the credentials cannot be checked at the moment")
)

// FirstOf asks the sources in order, until one finds credentials of its own kind.
type FirstOf []Authenticator

// Authenticate implements Authenticator.
func (sources FirstOf) Authenticate(ctx context.Context, r Request) (Principal, error) {
	for _, source := range sources {
		principal, err := source.Authenticate(ctx, r)
		if !errors.Is(err, ErrNoCredentials) {
			return principal, err
		}
	}
	return Principal{}, ErrNoCredentials
}

// Anonymous takes every caller without credentials for one and the same: all share one another's tasks. A caller
// who does carry credentials is refused rather than stripped of its name.
type Anonymous struct{}

// Authenticate implements Authenticator.
func (Anonymous) Authenticate(_ context.Context, r Request) (Principal, error) {
	if r.Header.Get("Authorization") != "" {
		return Principal{}, ErrRefused
	}
	return Principal{Identity: v1alpha1.Identity{Issuer: anonymous, Subject: anonymous}}, nil
}

// bearer is the token of the Authorization header (RFC 6750, 2.1).
func bearer(header http.Header) (string, bool) {
	scheme, token, ok := strings.Cut(header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}
