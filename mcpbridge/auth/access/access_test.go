package access

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/mcptask/mcptask/mcpbridge/auth"
)

// cluster lets alice call the tool crawl, and group g every tool.
type cluster struct {
	asked atomic.Int64
	takes time.Duration
	err   error
	last  authorizationv1.SubjectAccessReviewSpec
}

func (c *cluster) Access(_ context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	c.asked.Add(1)
	time.Sleep(c.takes)
	if c.err != nil {
		return nil, c.err
	}
	c.last = review.Spec
	allowed := review.Spec.User == "alice" && review.Spec.ResourceAttributes.Name == "crawl"
	for _, group := range review.Spec.Groups {
		allowed = allowed || group == "g"
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Denied: review.Spec.User == "both"}
	return review, nil
}

func TestTheClusterDecides(t *testing.T) {
	server := &cluster{}
	policy := NewRBAC(server)
	alice, member := auth.Principal{User: "alice"}, auth.Principal{User: "bob", Groups: []string{"a", "g"}}
	for _, tc := range []struct {
		who  auth.Principal
		tool string
		want bool
	}{
		{alice, "crawl", true}, {alice, "pay", false}, {alice, "", false}, {member, "pay", true}, {member, "", true},
		{auth.Principal{User: "both", Groups: []string{"g"}}, "pay", false},
	} {
		for range 2 { // remembered, it is the same
			if got, err := policy.MayCall(t.Context(), tc.who, "team", tc.tool); err != nil || got != tc.want {
				t.Errorf("%s and %q: %v, %v", tc.who.User, tc.tool, got, err)
			}
		}
	}
	if n := server.asked.Load(); n != 6 {
		t.Errorf("%d reviews for 6 questions", n)
	}
	want := authorizationv1.ResourceAttributes{Group: "mcptask.dev", Version: "v1alpha1", Resource: "mcptools", Namespace: "team", Name: "pay", Verb: "call"}
	if *server.last.ResourceAttributes != want {
		t.Errorf("asked was for %+v", server.last.ResourceAttributes)
	}
}

func TestACallerWithoutAUserMayDoNothing(t *testing.T) {
	server := &cluster{}
	if got, err := NewRBAC(server).MayCall(t.Context(), auth.Principal{Groups: []string{"g"}}, "team", "crawl"); got || err != nil || server.asked.Load() != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// No name or group, whatever is in it, makes one question look like another.
func TestQuestionsAreNotMixedUp(t *testing.T) {
	policy := NewRBAC(&cluster{})
	if ok, _ := policy.MayCall(t.Context(), auth.Principal{User: "x", Groups: []string{"g"}}, "team", "crawl"); !ok {
		t.Fatal("the group may")
	}
	for _, who := range []auth.Principal{{User: "x\x00g"}, {User: "x"}, {User: "x", Groups: []string{"\x00g"}}, {User: "x", Groups: []string{"a\x00g"}}} {
		if ok, err := policy.MayCall(t.Context(), who, "team", "crawl"); ok || err != nil {
			t.Errorf("%+v may", who)
		}
	}
	if ok, _ := policy.MayCall(t.Context(), auth.Principal{User: "g"}, "team", "crawl\x00x"); ok {
		t.Error("a tool's name is taken for more")
	}
}

func TestARightLapsesAndComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &cluster{}
		policy := NewRBAC(server)
		ask := func(tool string) { _, _ = policy.MayCall(t.Context(), auth.Principal{User: "alice"}, "team", tool) }
		for elapsed, want := range map[string]time.Duration{"crawl": allowedFor, "pay": deniedFor} {
			before := server.asked.Load()
			ask(elapsed)
			time.Sleep(want - time.Second)
			ask(elapsed)
			if n := server.asked.Load() - before; n != 1 {
				t.Errorf("%s: %d reviews", elapsed, n)
			}
			time.Sleep(2 * time.Second)
			ask(elapsed)
			if n := server.asked.Load() - before; n != 2 {
				t.Errorf("%s, later: %d reviews", elapsed, n)
			}
		}
	})
}

func TestManyWhoAskTheSameShareAReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &cluster{takes: time.Second}
		policy := NewRBAC(server)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { _, _ = policy.MayCall(t.Context(), auth.Principal{User: "alice"}, "team", "crawl") })
		}
		all.Wait()
		if n := server.asked.Load(); n != 1 {
			t.Errorf("%d reviews", n)
		}
	})
}

func TestAnOutageAllowsNothingAndIsNotRemembered(t *testing.T) {
	server := &cluster{err: errors.New("connection refused")}
	policy := NewRBAC(server)
	if ok, err := policy.MayCall(t.Context(), auth.Principal{User: "alice"}, "team", "crawl"); ok || !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("%v, %v", ok, err)
	}
	server.err = nil
	if ok, err := policy.MayCall(t.Context(), auth.Principal{User: "alice"}, "team", "crawl"); !ok || err != nil {
		t.Errorf("after the outage: %v, %v", ok, err)
	}
}
