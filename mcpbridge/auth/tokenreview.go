package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// IssuerKubernetes is the issuer of callers that a TokenReview identified.
const IssuerKubernetes = "kubernetes"

// extraPodUID is where the API server says which Pod a token is bound to (Kubernetes, Managing Service Accounts, Bound
// service account tokens).
const extraPodUID = "authentication.kubernetes.io/pod-uid"

const (
	// acceptedFor bounds how long a revoked token still works.
	acceptedFor = time.Minute
	// refusedFor keeps a bad token from becoming a request to the API server each time.
	refusedFor = 5 * time.Second
	// maxTokens bounds the memory of what was reviewed.
	maxTokens = 4096
	// maxTokenBytes is longer than any token of a cluster.
	maxTokenBytes = 16 << 10
)

// The right to create TokenReviews tells the bridge who its callers are, and gives it nothing else.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create

// Reviewer creates TokenReviews.
type Reviewer interface {
	Review(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
}

// TokenReview identifies callers by Kubernetes tokens made for the audience of the endpoint.
type TokenReview struct {
	reviewer Reviewer
	reviewed *cache.LRUExpireCache // sha256 of audiences and token → Principal, or an error
}

// NewTokenReview makes a source of identities that asks the API server.
func NewTokenReview(reviewer Reviewer) *TokenReview {
	return &TokenReview{reviewer: reviewer, reviewed: cache.NewLRUExpireCache(maxTokens)}
}

// Authenticate implements Authenticator.
func (t *TokenReview) Authenticate(ctx context.Context, r Request) (Principal, error) {
	if r.Header.Get("Authorization") == "" {
		return Principal{}, ErrNoCredentials
	}
	token, ok := bearer(r.Header)
	if !ok || len(token) > maxTokenBytes {
		return Principal{}, ErrRefused
	}
	key := sha256.Sum256([]byte(strings.Join(r.Audiences, "\x00") + "\x00\x00" + token))
	if known, ok := t.reviewed.Get(key); ok {
		if principal, ok := known.(Principal); ok {
			return principal, nil
		}
		return Principal{}, ErrRefused
	}
	review, err := t.reviewer.Review(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: r.Audiences},
	})
	if err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if status := review.Status; status.Authenticated && status.User.Username != "" && madeFor(status.Audiences, r.Audiences) {
		principal := Principal{
			Identity: v1alpha1.Identity{Issuer: IssuerKubernetes, Subject: status.User.Username},
			Groups:   status.User.Groups,
		}
		if pods := status.User.Extra[extraPodUID]; len(pods) == 1 {
			principal.PodUID = types.UID(pods[0])
		}
		t.reviewed.Add(key, principal, acceptedFor)
		return principal, nil
	}
	t.reviewed.Add(key, ErrRefused, refusedFor)
	return Principal{}, ErrRefused
}

// madeFor says whether the token is for us. An API server that does not know audiences returns none: refused, since such
// a token was not made for anybody in particular.
func madeFor(granted, ours []string) bool {
	return slices.ContainsFunc(granted, func(a string) bool { return slices.Contains(ours, a) })
}
