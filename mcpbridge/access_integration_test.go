//go:build integration

package mcpbridge_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// letCall lets a subject call tools of the namespace; all of them when none is named.
func letCall(t *testing.T, namespace string, subject rbacv1.Subject, tools ...string) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "caller-"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"mcptask.dev"}, Resources: []string{"mcptools"}, Verbs: []string{"call"}, ResourceNames: tools}}}
	if err := k8s.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "caller-"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, Subjects: []rbacv1.Subject{subject}}
	if err := k8s.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func toolsOf(t *testing.T, caller mcptest.Client) (names []string) {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	response := caller.Call(t, "tools/list", nil)
	if response.Error != nil || json.Unmarshal(response.Result, &list) != nil {
		t.Fatalf("tools/list: HTTP %d with %s", response.Status, response.Raw)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// Callers of every source at one bridge: the cluster says who may call what, each task is its maker's alone, and none of
// what the callers show is to be found anywhere afterwards.
func TestTheClustersRBACSaysWhoMayCallWhat(t *testing.T) {
	namespace := newNamespace(t)
	if err := k8s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}}); err != nil {
		t.Fatal(err)
	}
	newTool(t, namespace, "crawl", nil)
	newTool(t, namespace, "pay-object", func(s *v1alpha1.McpToolSpec) { s.Name = "pay" })
	here := publicURL + "/mcp/" + namespace

	provider := oidctest.New(t)
	issuers, err := yaml.Marshal([]oidc.Config{{Issuer: provider.URL, GroupsClaim: "groups", CertificateAuthority: provider.CertificateAuthority}})
	if err != nil {
		t.Fatal(err)
	}
	files, apiKeys := t.TempDir(), t.TempDir()
	key := auth.KeyPrefix + strings.Repeat("k", 43)
	described := fmt.Sprintf("sha256: %x\nsubject: ci\ngroups: [bots]\nnamespaces: [%s]\n", sha256.Sum256([]byte(key)), namespace)
	for file, text := range map[string]string{filepath.Join(files, "issuers.yaml"): string(issuers), filepath.Join(apiKeys, "ci"): described} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log, audit lines
	bridge := startBridge(t, func(o *mcpbridge.Options) {
		o.TokenReview, o.PublicURL, o.Authorization = true, publicURL, mcpbridge.AuthorizationRBAC
		o.IssuersFile, o.APIKeysFolder, o.RequiredScopes = filepath.Join(files, "issuers.yaml"), apiKeys, []string{"mcp"}
		o.Log, o.Audit = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), slog.New(slog.NewJSONHandler(&audit, nil))
	})
	scope := map[string]any{"scope": "mcp", "client_id": "one-client"}
	member := map[string]any{"scope": "mcp", "client_id": "one-client", "groups": []string{"payers"}}
	callers := map[string]struct {
		token, issuer, subject string
		may                    []string
	}{
		"a service account": {token(t, namespace, "agent", here), "kubernetes", "system:serviceaccount:" + namespace + ":agent", []string{"crawl", "pay"}},
		"a person":          {provider.Token(t, "alice", here, scope), provider.URL, "alice", []string{"crawl"}},
		"a group's member":  {provider.Token(t, "bob", here, member), provider.URL, "bob", []string{"pay"}},
		"an API key":        {key, "apikey", "ci", []string{"crawl", "pay"}},
		"a stranger":        {provider.Token(t, "carol", here, scope), provider.URL, "carol", nil},
		"nobody":            {"", "anonymous", "anonymous", nil},
	}
	letCall(t, namespace, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "agent"})
	letCall(t, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "oidc:alice"}, "crawl")
	letCall(t, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "oidc:payers"}, "pay-object")
	letCall(t, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "apikey:ci"})
	as := func(token string) mcptest.Client {
		return mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true, Token: token}
	}
	for name, caller := range callers {
		eventually(t, "the tools of "+name, func() bool { return slices.Equal(toolsOf(t, as(caller.token)), caller.may) })
		for _, tool := range []string{"crawl", "pay"} {
			if !slices.Contains(caller.may, tool) {
				response := as(caller.token).Call(t, "tools/call", map[string]any{"name": tool})
				if response.Error == nil || response.Error.Message != "Unknown tool: "+tool {
					t.Errorf("%s calls %s: %s", name, tool, response.Raw)
				}
			}
		}
		if len(caller.may) == 0 {
			continue
		}
		id := handle(t, as(caller.token), caller.may[0])
		task := &v1alpha1.McpTask{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: id}, task); err != nil {
			t.Fatal(err)
		}
		if owner := task.Spec.Owner; owner.Issuer != caller.issuer || owner.Subject != caller.subject {
			t.Errorf("%s owns its task as %+v", name, owner)
		}
		for other, stranger := range callers {
			response := as(stranger.token).Call(t, "tasks/get", map[string]any{"taskId": id})
			if mine := other == name; mine != (response.Error == nil) || !mine && !strings.HasPrefix(response.Error.Message, "Unknown task") {
				t.Errorf("%s reads the task of %s: %s", other, name, response.Raw)
			}
		}
	}
	before := bridge.requests.len()
	for _, caller := range callers {
		toolsOf(t, as(caller.token))
	}
	if made := bridge.requests.since(before); len(made) > 0 {
		t.Errorf("what is known was asked again: %v", made)
	}
	refused := map[string]string{
		"of another namespace": provider.Token(t, "alice", publicURL+"/mcp/other", scope), "expired": provider.Token(t, "alice", here, map[string]any{"exp": 1, "scope": "mcp"}),
		"without its scope": provider.Token(t, "alice", here, nil), "nonsense": "a.b.c", "no key": auth.KeyPrefix + strings.Repeat("x", 43),
	}
	for name, bad := range refused {
		response := as(bad).Call(t, "tools/list", nil)
		want := http.StatusUnauthorized
		if name == "without its scope" {
			want = http.StatusForbidden
		}
		if challenge := response.Header.Get("WWW-Authenticate"); response.Status != want ||
			!strings.Contains(challenge, publicURL+"/.well-known/oauth-protected-resource/mcp/"+namespace) || !strings.Contains(challenge, `scope="mcp"`) {
			t.Errorf("%s: HTTP %d, %s", name, response.Status, challenge)
		}
	}

	tokens := []string{}
	for _, caller := range callers {
		tokens = append(tokens, caller.token)
	}
	for _, bad := range refused {
		tokens = append(tokens, bad)
	}
	tasks, events := &v1alpha1.McpTaskList{}, &corev1.EventList{}
	for _, list := range []client.ObjectList{tasks, events} {
		if err := k8s.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := yaml.Marshal([]any{tasks, events})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(bridge.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	metrics, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{"the log": log.String(), "the audit log": audit.String(), "an object": string(objects), "a metric": string(metrics)} {
		for _, token := range tokens {
			if len(token) > 5 && (strings.Contains(text, token) || strings.Contains(token, ".") && strings.Contains(text, token[strings.LastIndex(token, "."):])) {
				t.Errorf("%s has a token", place)
			}
		}
	}
	for _, want := range []string{`"outcome":"created","issuer":"` + provider.URL + `","subject":"alice"`, `"why":"may not call the tool","issuer":"` + provider.URL + `","subject":"carol"`,
		`"why":"not the owner of the task"`, `the token was made for another audience`, `the token has expired`, `the token lacks a scope`} {
		if !strings.Contains(audit.String(), want) {
			t.Errorf("the audit log does not have %s:\n%s", want, audit.String())
		}
	}
	if !strings.Contains(string(metrics), `mcptask_bridge_audit_events_total{method="tools/call",outcome="created"}`) {
		t.Error("no metric counts what the audit log has")
	}
}
