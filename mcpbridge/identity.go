package mcpbridge

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/access"
	"github.com/mcptask/mcptask/mcpbridge/auth/apikey"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc"
)

// newSources makes the sources of identities that the options name. issuers are the URLs of those that give tokens out.
func newSources(reviews auth.Reviewer, options Options) (sources auth.Sources, issuers []string, err error) {
	sources = auth.Sources{Issuers: map[string]auth.Authenticator{}, Anonymous: options.AllowAnonymous}
	if options.TokenReview {
		sources.Cluster = auth.NewTokenReview(reviews)
	}
	if options.APIKeysFolder != "" {
		keys, err := apikey.Load(options.APIKeysFolder, options.Log)
		if err != nil {
			return sources, nil, fmt.Errorf("--api-keys-folder: %w", err)
		}
		sources.Keys = keys
	}
	if options.IssuersFile != "" {
		configs, err := oidc.Load(options.IssuersFile)
		if err != nil {
			return sources, nil, fmt.Errorf("--issuers-file: %w", err)
		}
		for _, config := range configs {
			sources.Issuers[config.Issuer] = oidc.New(config, options.RequiredScopes, options.Log)
			issuers = append(issuers, config.Issuer)
		}
	}
	return sources, issuers, nil
}

// newAccess makes the policy for calls that the options name.
func newAccess(reviews access.Reviewer, options Options) access.Policy {
	if options.Authorization == AuthorizationNone {
		return access.Everyone{}
	}
	return access.NewRBAC(reviews)
}

// reviewTimeout bounds how long a caller waits for what the API server says of it.
const reviewTimeout = 5 * time.Second

// reviewer asks the API server, with a client of its own: questions about callers do not hold up what is written for them.
type reviewer struct{ clientset kubernetes.Interface }

// Review implements auth.Reviewer.
func (r reviewer) Review(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	return r.clientset.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
}

// Access implements access.Reviewer.
func (r reviewer) Access(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	return r.clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
}
