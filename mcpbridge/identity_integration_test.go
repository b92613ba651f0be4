//go:build integration

package mcpbridge_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

const publicURL = "https://mcp.example.com"

// token is a token of a service account for some audiences.
func token(t *testing.T, namespace, account string, audiences ...string) string {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func TestCallersAreIdentifiedByTheirTokens(t *testing.T) {
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	for _, account := range []string{"alice", "bob"} {
		if err := k8s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}); err != nil {
			t.Fatal(err)
		}
	}
	newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, func(o *mcpbridge.Options) {
		o.TokenReview, o.AllowAnonymous, o.PublicURL, o.DefaultNamespace = true, false, publicURL+"/", namespace
	})
	here := publicURL + "/mcp/" + namespace
	alice := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true, Token: token(t, namespace, "alice", here)}
	bob := alice
	bob.Token = token(t, namespace, "bob", here)
	offered(t, alice, "crawl")

	id := handle(t, alice, "crawl")
	if owner := only(t, namespace).Spec.Owner; owner.Issuer != "kubernetes" || owner.Subject != "system:serviceaccount:"+namespace+":alice" {
		t.Errorf("the owner is %+v", owner)
	}
	if got := status(t, alice, id); got != "working" {
		t.Errorf("her own task is %s", got)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		response := bob.Call(t, method, map[string]any{"taskId": id})
		if response.Status != http.StatusBadRequest || response.Error == nil || response.Error.Code != -32602 {
			t.Errorf("a stranger's %s: HTTP %d with %s", method, response.Status, response.Raw)
		}
	}
	if only(t, namespace).Spec.Cancel != nil {
		t.Error("a stranger cancelled the task")
	}

	plain := alice
	plain.URL, plain.Token = bridge.url+"/mcp", token(t, namespace, "alice", publicURL+"/mcp")
	if got := status(t, plain, id); got != "working" {
		t.Errorf("at the default endpoint the task is %s", got)
	}
	for name, refused := range map[string]mcptest.Client{
		"no token":                            {URL: alice.URL},
		"a token for the API server":          {URL: alice.URL, Token: token(t, namespace, "alice")},
		"a token for somebody else":           {URL: alice.URL, Token: token(t, namespace, "alice", "https://other.example.com")},
		"a token for another endpoint":        {URL: bridge.url + "/mcp/" + elsewhere, Token: alice.Token},
		"a token for the default, elsewhere":  {URL: alice.URL, Token: plain.Token},
		"a token that was changed":            {URL: alice.URL, Token: strings.TrimRight(alice.Token, "A") + "A1"},
		"no token at all but something alike": {URL: alice.URL, Token: "a.b.c"},
	} {
		response := refused.Call(t, "tools/list", nil)
		if response.Status != http.StatusUnauthorized || !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer") || response.Error == nil {
			t.Errorf("%s: HTTP %d, %v, with %s", name, response.Status, response.Header, response.Raw)
		}
	}

	before := bridge.requests.len()
	for range 20 {
		status(t, alice, id)
	}
	if made := bridge.requests.since(before); len(made) != 0 {
		t.Errorf("polls with a known token made the requests %v", made)
	}
}

func TestProbesAndMetrics(t *testing.T) {
	bridge := startBridge(t, nil)
	client := mcptest.Client{URL: bridge.url + "/mcp/none"}
	client.Call(t, "tools/list", nil)
	for url, want := range map[string]int{bridge.health + "/healthz": 200, bridge.health + "/readyz": 200, bridge.metrics + "/metrics": 200, bridge.url + "/metrics": 404} {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want {
			t.Errorf("%s: HTTP %d", url, response.StatusCode)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	bridge.stop()
	if err := bridge.stopped(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(bridge.health + "/readyz"); err == nil {
		t.Error("a bridge that has ended still answers")
	} else if errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
