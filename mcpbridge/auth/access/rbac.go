package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
)

const (
	// allowedFor bounds how long a right that was taken away still works, deniedFor how long one that was given does not.
	allowedFor, deniedFor = 30 * time.Second, 10 * time.Second
	// maxAnswers bounds the memory of each.
	maxAnswers = 16384
)

// verb is the right to call a tool: a verb of mcptools that the API server itself has no use for.
const verb = "call"

// The right to create SubjectAccessReviews tells the bridge what its callers may do, and gives it nothing else.
//
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Reviewer creates SubjectAccessReviews.
type Reviewer interface {
	Access(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)
}

// RBAC lets the cluster decide: it asks for the verb call on the McpTool, as the caller's user and groups.
type RBAC struct {
	reviewer        Reviewer
	flight          singleflight.Group
	allowed, denied *cache.LRUExpireCache // by sha256 of the question → nothing
}

// NewRBAC makes a policy that asks the API server.
func NewRBAC(reviewer Reviewer) *RBAC {
	return &RBAC{reviewer: reviewer, allowed: cache.NewLRUExpireCache(maxAnswers), denied: cache.NewLRUExpireCache(maxAnswers)}
}

// MayCall implements Policy.
func (r *RBAC) MayCall(ctx context.Context, caller auth.Principal, namespace, tool string) (bool, error) {
	if caller.User == "" {
		return false, nil
	}
	words, err := json.Marshal([]any{namespace, tool, caller.User, slices.Sorted(slices.Values(caller.Groups))})
	if err != nil {
		return false, fmt.Errorf("writing down who asks: %w", err)
	}
	question := sha256.Sum256(words)
	if _, ok := r.allowed.Get(question); ok {
		return true, nil
	}
	if _, ok := r.denied.Get(question); ok {
		return false, nil
	}
	reviewed := r.flight.DoChan(string(question[:]), func() (any, error) {
		// Not the caller's context: others may wait for the same answer.
		return r.review(context.WithoutCancel(ctx), question, caller, namespace, tool)
	})
	select {
	case review := <-reviewed:
		if review.Err != nil {
			return false, review.Err
		}
		return review.Val.(bool), nil
	case <-ctx.Done():
		return false, fmt.Errorf("%w: %w", auth.ErrUnavailable, ctx.Err())
	}
}

func (r *RBAC) review(ctx context.Context, question [sha256.Size]byte, caller auth.Principal, namespace, tool string) (bool, error) {
	review, err := r.reviewer.Access(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: caller.User, Groups: caller.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "mcptools",
			Namespace: namespace, Name: tool, Verb: verb,
		},
	}})
	if err != nil {
		return false, fmt.Errorf("%w: SubjectAccessReview: %w", auth.ErrUnavailable, err)
	}
	if review.Status.Allowed && !review.Status.Denied {
		r.allowed.Add(question, struct{}{}, allowedFor)
		return true, nil
	}
	r.denied.Add(question, struct{}{}, deniedFor)
	return false, nil
}
