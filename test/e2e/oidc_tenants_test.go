//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/test/harness"
)

// publicHost is the name under which agents know the bridge.
const publicHost = "mcp.example.test"

// tenants are two namespaces behind one bridge, which is reached by its public name through a proxy that ends TLS, and which
// accepts the tokens of one provider alone.
type tenants struct {
	t       *testing.T
	cluster *harness.Cluster
	idp     *provider
	http    *http.Client
	// one and other are the namespaces; alice and bob may call the tools of one, carol those of the other. alice and bob use
	// the same OAuth client.
	one, other        string
	alice, bob, carol string
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	x := &tenants{t: t, cluster: connect(t)}
	x.one, x.other = withTools(t, x.cluster, "compute", "ask"), withTools(t, x.cluster, "compute")
	vouching := newAuthority(t)
	x.idp = startProvider(t, x.cluster, vouching)
	upgraded(t, fmt.Sprintf(`
publicURL: https://%s
auth:
  tokenReview: false
  oidc:
    requiredScopes: ["mcp:tools"]
    issuers:
    - issuer: %s
      certificateAuthority: %q
`, publicHost, x.idp.issuer, vouching.PEM))
	x.cluster.AwaitBridge(t)
	certificate, key := vouching.vouch(t, publicHost)
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	x.http = reach(t, vouching, map[string]string{
		net.JoinHostPort(publicHost, "443"):                                   x.cluster.Ingress(t, pair),
		net.JoinHostPort(strings.TrimPrefix(x.idp.issuer, "https://"), "443"): x.idp.address,
	})
	x.idp.http = x.http
	x.letCall(x.one, "alice")
	x.letCall(x.one, "bob")
	x.letCall(x.other, "carol")
	x.alice, x.bob, x.carol = x.token(x.one, "alice", "agents"), x.token(x.one, "bob", "agents"), x.token(x.other, "carol", "others")
	return x
}

// letCall lets a person of the provider call a namespace's tools.
func (x *tenants) letCall(namespace, person string) {
	x.t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: person + "-calls", Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: harness.Release + "-caller"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "oidc:" + person}},
	}
	if err := x.cluster.Client.Create(context.Background(), binding); err != nil {
		x.t.Fatal(err)
	}
}

// endpoint is the URL of a namespace's tools, for agents.
func (x *tenants) endpoint(namespace string) string {
	return "https://" + publicHost + "/mcp/" + namespace
}

// token is a person's token for a namespace's endpoint, to which the refusal of that endpoint leads.
func (x *tenants) token(namespace, person, oauthClient string, scopes ...string) string {
	x.t.Helper()
	return x.idp.authorize(x.t, x.ask(namespace, ""), person, oauthClient, scopes)
}

// ask lists an endpoint's tools with a token, and returns what comes of it.
func (x *tenants) ask(namespace, token string) *http.Response {
	x.t.Helper()
	request, err := mcptest.Client{URL: x.endpoint(namespace), Token: token}.Request(x.t.Context(), "tools/list", nil)
	if err != nil {
		x.t.Fatal(err)
	}
	answer, err := x.http.Do(request)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// as is a client that shows a token.
func (x *tenants) as(namespace, token string) mcptest.Client {
	return mcptest.Client{URL: x.endpoint(namespace), Token: token, Tasks: true, Elicitation: []string{"form"}, HTTP: x.http}
}

// agent is the same as a client that waits for tasks.
func (x *tenants) agent(namespace, token string) *mcpclient.Client {
	return mcpclient.New(x.endpoint(namespace), mcpclient.Options{Tasks: true, HTTPClient: x.http,
		Capabilities: map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
		Token:        func(context.Context) (string, error) { return token, nil }})
}

// claims are those of a token.
func claims(t *testing.T, token string) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// logs are those of all containers of a namespace's Pods, by the Pods' names.
func logs(t *testing.T, cluster *harness.Cluster, namespace string) map[string]string {
	t.Helper()
	var pods corev1.PodList
	if err := cluster.Client.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, pod := range pods.Items {
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			stream, err := cluster.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).Stream(t.Context())
			if err != nil {
				continue // it has not started, or is gone by now
			}
			raw, err := io.ReadAll(stream)
			_ = stream.Close() // it was read to its end
			if err != nil {
				t.Fatal(err)
			}
			all[pod.Name] += string(raw)
		}
	}
	return all
}
