package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
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
	// maxTokens bounds the memory of what was reviewed, of good tokens and of bad ones: neither pushes the others out.
	maxTokens = 4096
	// reviewRate and reviewBurst bound the reviews of tokens that are not remembered, a second: nonsense that anybody may
	// send must not become the API server's load.
	reviewRate, reviewBurst = 50, 200
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
	limiter  *rate.Limiter
	flight   singleflight.Group
	// Both by the sha256 of audiences and token.
	accepted *cache.LRUExpireCache // → Principal
	refused  *cache.LRUExpireCache // → nothing
}

// NewTokenReview makes a source of identities that asks the API server.
func NewTokenReview(reviewer Reviewer) *TokenReview {
	return &TokenReview{reviewer: reviewer, limiter: rate.NewLimiter(reviewRate, reviewBurst),
		accepted: cache.NewLRUExpireCache(maxTokens), refused: cache.NewLRUExpireCache(maxTokens)}
}

// Authenticate implements Authenticator.
func (t *TokenReview) Authenticate(ctx context.Context, r Request) (Principal, error) {
	if r.Header.Get("Authorization") == "" {
		return Principal{}, ErrNoCredentials
	}
	token, ok := Bearer(r.Header)
	if !ok {
		return Principal{}, ErrRefused
	}
	key := sha256.Sum256([]byte(strings.Join(r.Audiences, "\x00") + "\x00\x00" + token))
	if known, ok := t.accepted.Get(key); ok {
		return known.(Principal), nil
	}
	if _, ok := t.refused.Get(key); ok {
		return Principal{}, ErrRefused
	}
	reviewed := t.flight.DoChan(string(key[:]), func() (any, error) {
		// Not the caller's context: others may wait for the same answer.
		return t.review(context.WithoutCancel(ctx), key, token, r.Audiences)
	})
	select {
	case review := <-reviewed:
		if review.Err != nil {
			return Principal{}, review.Err
		}
		return review.Val.(Principal), nil
	case <-ctx.Done():
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// review asks the API server and remembers the answer, unless there is none.
func (t *TokenReview) review(ctx context.Context, key [sha256.Size]byte, token string, audiences []string) (Principal, error) {
	if !t.limiter.Allow() {
		return Principal{}, fmt.Errorf("%w: too many tokens that are not known", ErrUnavailable)
	}
	review, err := t.reviewer.Review(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	})
	if err != nil {
		// What the API server says about a token of a request may repeat it.
		return Principal{}, fmt.Errorf("%w: TokenReview: %s", ErrUnavailable, strings.ReplaceAll(err.Error(), token, "TOKEN"))
	}
	status := review.Status
	if !status.Authenticated || status.User.Username == "" || !madeFor(status.Audiences, audiences) {
		t.refused.Add(key, struct{}{}, refusedFor)
		return Principal{}, ErrRefused
	}
	principal := Principal{
		Identity: v1alpha1.Identity{Issuer: IssuerKubernetes, Subject: status.User.Username},
		User:     status.User.Username,
		Groups:   status.User.Groups,
	}
	if pods := status.User.Extra[extraPodUID]; len(pods) == 1 {
		principal.PodUID = types.UID(pods[0])
	}
	t.accepted.Add(key, principal, acceptedFor)
	return principal, nil
}

// madeFor says whether the token is for us. An API server that does not know audiences returns none: refused, since such
// a token was not made for anybody in particular.
func madeFor(granted, ours []string) bool {
	return slices.ContainsFunc(granted, func(a string) bool { return slices.Contains(ours, a) })
}
