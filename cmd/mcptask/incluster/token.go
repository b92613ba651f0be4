package incluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renewBefore is how long before its end a token is replaced. The API server makes none for less than ten minutes.
const renewBefore = 2 * time.Minute

// ServiceAccountTokens gives tokens of a service account of the namespace, made for one audience and nothing else. They are
// asked for when they are needed, and renewed before they end.
func (c *Cluster) ServiceAccountTokens(ctx context.Context, account, audience string) oauth2.TokenSource {
	return oauth2.ReuseTokenSourceWithExpiry(nil, &tokenRequests{ctx, c, account, audience}, renewBefore)
}

type tokenRequests struct {
	ctx               context.Context // the interface passes none
	cluster           *Cluster
	account, audience string
}

// Token implements oauth2.TokenSource.
func (r *tokenRequests) Token() (*oauth2.Token, error) {
	namespace := r.cluster.Namespace
	made, err := r.cluster.client.CoreV1().ServiceAccounts(namespace).CreateToken(r.ctx, r.account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{r.audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of the service account %s/%s: %w", namespace, r.account, err)
	}
	return &oauth2.Token{AccessToken: made.Status.Token, Expiry: made.Status.ExpirationTimestamp.Time}, nil
}
