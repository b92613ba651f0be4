// Package auth finds out who calls.
package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Principal is a caller that was identified.
type Principal struct {
	v1alpha1.Identity
	// User and Groups are the caller's names in the cluster's RBAC. A caller without a user name may call nothing.
	User   string
	Groups []string
	// PodUID is the Pod that the token is bound to, where there is one.
	PodUID types.UID
}

// String names the principal for logs, spec.cancel.by and answeredBy. After a URL comes a # (an issuer has no fragment:
// OpenID Connect Discovery 1.0, 4.1), so that no two callers have one name.
func (p Principal) String() string {
	switch {
	case p.Subject == "":
		return "unidentified"
	case strings.Contains(p.Issuer, "://"):
		return p.Issuer + "#" + p.Subject
	}
	return p.Issuer + ":" + p.Subject
}

// Owns says whether the task is this caller's. A task without an owner is nobody's.
func (p Principal) Owns(task *v1alpha1.McpTask) bool {
	return task.Spec.Owner != nil && *task.Spec.Owner == p.Identity
}

const (
	// anonymous is the issuer of the one caller that all without credentials are.
	anonymous = "anonymous"
	// AnonymousUser is the name of that caller in the cluster's RBAC.
	AnonymousUser = "mcptask:anonymous"
	// MaxSubject is the longest name of a caller, in bytes: what an McpTask can hold.
	MaxSubject = 512
)

// Anonymous says that the caller cannot be told from others.
func (p Principal) Anonymous() bool { return p.Issuer == anonymous }

// Request is what an Authenticator looks at.
type Request struct {
	// Header of the HTTP request.
	Header http.Header
	// Namespace whose endpoint is called.
	Namespace string
	// Audiences for which a token may have been made: the URLs of the endpoint that is called.
	Audiences []string
}

// Authenticator is a source of identities.
type Authenticator interface {
	// Authenticate finds the caller. The error is ErrNoCredentials when the request has none for this source,
	// ErrRefused when it has some that are not good, ErrScope when they are good for less than this server asks for, and
	// ErrUnavailable when they cannot be checked now. It never holds the credentials, nor anything that is read from them.
	Authenticate(ctx context.Context, r Request) (Principal, error)
}

var (
	// ErrNoCredentials means that the request says nothing about its caller.
	ErrNoCredentials = errors.New("the request carries no credentials")
	// ErrRefused means that what the request carries identifies nobody here.
	ErrRefused = errors.New("the credentials are not accepted")
	// ErrScope means that the token was not given the scopes that this server asks for (RFC 6750, 3.1).
	ErrScope = errors.New("the token lacks a scope")
	// ErrUnavailable means that the source of the identity does not answer.
	ErrUnavailable = errors.New("the credentials cannot be checked at the moment")
)

// Refused is ErrRefused with the reason, for the audit log. The reason is a fixed text.
func Refused(why string) error { return fmt.Errorf("%w: %s", ErrRefused, why) }

// Bearer is the token of the Authorization header (RFC 6750, 2.1). A request with more than one such header has none.
func Bearer(header http.Header) (string, bool) {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= maxTokenBytes
}

// maxTokenBytes is longer than any token.
const maxTokenBytes = 16 << 10
