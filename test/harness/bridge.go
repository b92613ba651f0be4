//go:build e2e

package harness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// BridgePods are the ready replicas of the bridge.
func (c *Cluster) BridgePods(t testing.TB) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := c.Client.List(context.Background(), &pods, client.InNamespace(SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": "bridge"}); err != nil {
		t.Fatal(err)
	}
	var ready []corev1.Pod
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready = append(ready, pod)
			}
		}
	}
	return ready
}

// AwaitBridge waits until as many replicas of the bridge are ready as there should be.
func (c *Cluster) AwaitBridge(t testing.TB) {
	t.Helper()
	if _, err := Run(context.Background(), "", "kubectl", "-n", SystemNamespace, "rollout", "status", "deployment", Release+"-bridge", "--timeout", "2m"); err != nil {
		t.Fatal(err)
	}
}

// Replicas forwards a local port to each replica of the bridge and returns their URLs.
func (c *Cluster) Replicas(t testing.TB) []string {
	t.Helper()
	var urls []string
	for _, pod := range c.BridgePods(t) {
		urls = append(urls, "http://"+Forward(t, SystemNamespace, "pod/"+pod.Name, 8080))
	}
	if len(urls) < 2 {
		t.Fatalf("the bridge has %d ready replicas; two are under test", len(urls))
	}
	return urls
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) ->`)

// Forward forwards a local port to a port of a Pod or Service until the test ends.
func Forward(t testing.TB, namespace, target string, port int) string {
	t.Helper()
	cmd := exec.Command("kubectl", "-n", namespace, "port-forward", "--address", "127.0.0.1", target, fmt.Sprintf(":%d", port))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := forwarding.FindStringSubmatch(lines.Text()); found != nil {
			go func() {
				for lines.Scan() { // kubectl stops when nobody reads what it prints
				}
			}()
			return found[1]
		}
	}
	t.Fatalf("forwarding to %s/%s failed", namespace, target)
	return ""
}

// Token is a token of a service account of the namespace, made for an audience.
func (c *Cluster) Token(t testing.TB, namespace, account, audience string) string {
	t.Helper()
	made, err := c.Kubernetes.CoreV1().ServiceAccounts(namespace).CreateToken(context.Background(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// Audience is what tokens for a namespace's endpoint are made for.
func Audience(namespace string) string { return PublicURL + "/mcp/" + namespace }

// Agent is a client of the namespace's endpoint at a replica, as the service account.
func (c *Cluster) Agent(t testing.TB, replica, namespace, account string, tasks bool) *mcpclient.Client {
	t.Helper()
	token := c.Token(t, namespace, account, Audience(namespace))
	return mcpclient.New(replica+"/mcp/"+namespace, mcpclient.Options{
		Tasks: tasks, Token: func(context.Context) (string, error) { return token, nil },
	})
}

// Balanced is one URL in front of all replicas, each request at the next one, with the token added for clients that have none.
func (c *Cluster) Balanced(t testing.TB, token string) string {
	t.Helper()
	var turn atomic.Int64
	return c.Routed(t, token, func(*http.Request) int { return int(turn.Add(1)) })
}

// Routed is the same, but route says which replica a request reaches, as a number of any size.
func (c *Cluster) Routed(t testing.TB, token string, route func(*http.Request) int) string {
	t.Helper()
	server := httptest.NewServer(c.proxy(t, route, func(r *httputil.ProxyRequest) { r.Out.Header.Set("Authorization", "Bearer "+token) }))
	t.Cleanup(server.Close)
	return server.URL
}

// Ingress is a proxy in front of all replicas that ends TLS, as ingress controllers do: HTTP/2 to clients and HTTP/1.1 to the
// bridge, Host as it was sent, and X-Forwarded headers. Each request reaches the next replica. It returns the proxy's address.
func (c *Cluster) Ingress(t testing.TB, certificate tls.Certificate) string {
	t.Helper()
	var turn atomic.Int64
	server := httptest.NewUnstartedServer(c.proxy(t, func(*http.Request) int { return int(turn.Add(1)) }, func(r *httputil.ProxyRequest) {
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}))
	server.TLS, server.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// proxy sends each request to the replica that route says, rewritten.
func (c *Cluster) proxy(t testing.TB, route func(*http.Request) int, rewrite func(*httputil.ProxyRequest)) http.Handler {
	t.Helper()
	var targets []*url.URL
	for _, replica := range c.Replicas(t) {
		target, err := url.Parse(replica)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[route(r.In)%len(targets)])
			rewrite(r)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A stream may begin before the proxy has seen the end of the request's body. The server would close that body
		// then, and the proxy the stream: so the body is read first.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}
