package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// reviews is an API server that knows tokens by heart.
type reviews struct {
	known map[string]authenticationv1.TokenReviewStatus
	err   error
	takes time.Duration
	asked atomic.Int64
}

func (r *reviews) Review(_ context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	r.asked.Add(1)
	time.Sleep(r.takes)
	if r.err != nil {
		return nil, r.err
	}
	review.Status = r.known[review.Spec.Token]
	return review, nil
}

const audience = "https://example.com/mcp/team"

func request(authorization string) Request {
	header := http.Header{}
	if authorization != "" {
		header.Set("Authorization", authorization)
	}
	return Request{Header: header, Audiences: []string{audience}}
}

func newReviews() *reviews {
	alice := authenticationv1.UserInfo{Username: "alice", Groups: []string{"g"}}
	return &reviews{known: map[string]authenticationv1.TokenReviewStatus{
		"good":        {Authenticated: true, User: alice, Audiences: []string{audience}},
		"bound":       {Authenticated: true, User: pod("one"), Audiences: []string{audience}},
		"vague":       {Authenticated: true, User: pod("one", "two"), Audiences: []string{audience}},
		"elsewhere":   {Authenticated: true, User: alice, Audiences: []string{"https://example.com/mcp/other"}},
		"no-audience": {Authenticated: true, User: alice},
		"nameless":    {Authenticated: true, Audiences: []string{audience}},
		"not":         {Authenticated: false, User: alice, Audiences: []string{audience}},
	}}
}

func TestTokenReviewIdentifiesByTokensForTheEndpoint(t *testing.T) {
	source := NewTokenReview(newReviews())
	for authorization, want := range map[string]error{
		"Bearer good": nil, "bearer  good": nil, "": ErrNoCredentials, "Basic good": ErrRefused, "Bearer": ErrRefused, "Bearer ": ErrRefused,
		"Bearer elsewhere": ErrRefused, "Bearer no-audience": ErrRefused, "Bearer nameless": ErrRefused, "Bearer not": ErrRefused, "Bearer none": ErrRefused,
	} {
		principal, err := source.Authenticate(t.Context(), request(authorization))
		if !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", authorization, err, want)
		}
		if err == nil && (principal.String() != "kubernetes:alice" || principal.User != "alice" || principal.Groups[0] != "g") {
			t.Errorf("%q: got %+v", authorization, principal)
		}
	}
}

func pod(uids ...string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: "system:serviceaccount:team:default", Extra: map[string]authenticationv1.ExtraValue{extraPodUID: uids}}
}

func TestAPodIsKnownByItsToken(t *testing.T) {
	source := NewTokenReview(newReviews())
	for token, want := range map[string]types.UID{"good": "", "bound": "one", "vague": ""} {
		for range 2 { // a remembered review says the same
			principal, err := source.Authenticate(t.Context(), request("Bearer "+token))
			if err != nil || principal.PodUID != want {
				t.Errorf("%s: got %q, %v", token, principal.PodUID, err)
			}
		}
	}
}

func TestReviewsAreRemembered(t *testing.T) {
	server := newReviews()
	source := NewTokenReview(server)
	for range 3 {
		_, _ = source.Authenticate(t.Context(), request("Bearer good"))
		_, _ = source.Authenticate(t.Context(), request("Bearer none"))
	}
	if n := server.asked.Load(); n != 2 {
		t.Errorf("%d reviews for two tokens", n)
	}
	other := request("Bearer good")
	other.Audiences = []string{"https://example.com/mcp/other"}
	if _, err := source.Authenticate(t.Context(), other); !errors.Is(err, ErrRefused) {
		t.Errorf("a token that is good for one endpoint is good for another: %v", err)
	}
	if acceptedFor > time.Minute {
		t.Errorf("a revoked token works for %s", acceptedFor)
	}
}

func TestAnOutageIsNoRefusal(t *testing.T) {
	server := newReviews()
	server.err = errors.New("connection refused")
	source := NewTokenReview(server)
	if _, err := source.Authenticate(t.Context(), request("Bearer good")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	server.err = nil
	if _, err := source.Authenticate(t.Context(), request("Bearer good")); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// Bad tokens, of which anybody can make as many as they like, neither push good ones out nor all reach the API server.
func TestNonsenseIsBounded(t *testing.T) {
	server := newReviews()
	source := NewTokenReview(server)
	if _, err := source.Authenticate(t.Context(), request("Bearer good")); err != nil {
		t.Fatal(err)
	}
	unavailable := 0
	for i := range 2 * maxTokens {
		if _, err := source.Authenticate(t.Context(), request(fmt.Sprint("Bearer nonsense-", i))); errors.Is(err, ErrUnavailable) {
			unavailable++
		}
	}
	if n := server.asked.Load(); n >= maxTokens || unavailable == 0 {
		t.Errorf("%d reviews for %d bad tokens, %d not reviewed", n, 2*maxTokens, unavailable)
	}
	if _, err := source.Authenticate(t.Context(), request("Bearer good")); err != nil {
		t.Errorf("a good token that was known: %v", err)
	}
}

func TestOneReviewForManyRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newReviews()
		server.takes = time.Second
		source := NewTokenReview(server)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := source.Authenticate(t.Context(), request("Bearer good")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := server.asked.Load(); n != 1 {
			t.Errorf("%d reviews", n)
		}
	})
}

func TestErrorsOfTheClusterDoNotRepeatTheToken(t *testing.T) {
	server := newReviews()
	server.err = errors.New(`TokenReview "good" is invalid`)
	if _, err := NewTokenReview(server).Authenticate(t.Context(), request("Bearer good")); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "good") {
		t.Errorf("got %v", err)
	}
}

func TestOwnership(t *testing.T) {
	alice := Principal{Identity: v1alpha1.Identity{Issuer: "kubernetes", Subject: "alice"}}
	for name, tc := range map[string]struct {
		owner *v1alpha1.Identity
		want  bool
	}{
		"her own":               {&v1alpha1.Identity{Issuer: "kubernetes", Subject: "alice"}, true},
		"somebody else's":       {&v1alpha1.Identity{Issuer: "kubernetes", Subject: "bob"}, false},
		"another source's name": {&v1alpha1.Identity{Issuer: "anonymous", Subject: "alice"}, false},
		"nobody's":              {nil, false},
	} {
		if got := alice.Owns(&v1alpha1.McpTask{Spec: v1alpha1.McpTaskSpec{Owner: tc.owner}}); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
