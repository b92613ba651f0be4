//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/test/harness"
)

// Two tenants and three callers, a provider in the cluster, a proxy that ends TLS, two replicas. All of it is set up once.
func TestTenantsOfAnOpenIDProvider(t *testing.T) {
	x := newTenants(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *tenants)
	}{
		{"a refusal leads to a token, a task and its result", refusalLeadsToAResult},
		{"a token is good at one endpoint", tokenIsGoodAtOneEndpoint},
		{"two callers of one client are strangers", callersOfOneClientAreStrangers},
		{"a question is answered by its task's owner", questionIsAnsweredByTheOwner},
		{"every wrong token is refused", wrongTokensAreRefused},
		{"a token without the scope is told which", scopeIsAskedFor},
		{"keys are rotated while everything runs", keysAreRotated},
		{"the audit log names who did what", auditNamesWho}, // what the others did
		{"no token is kept anywhere", noTokenIsKept},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, x) })
	}
}

func refusalLeadsToAResult(t *testing.T, x *tenants) {
	refusal := x.ask(x.one, "")
	metadata := "https://" + publicHost + "/.well-known/oauth-protected-resource/mcp/" + x.one
	challenge := refusal.Header.Get("WWW-Authenticate")
	if refusal.StatusCode != http.StatusUnauthorized || challenge != fmt.Sprintf(`Bearer resource_metadata=%q, scope="mcp:tools"`, metadata) {
		t.Fatalf("HTTP %d, %s", refusal.StatusCode, challenge)
	}
	if refusal.ProtoMajor != 2 {
		t.Errorf("the proxy speaks %s", refusal.Proto)
	}
	described, err := oauthex.GetProtectedResourceMetadata(t.Context(), metadata, x.endpoint(x.one), x.http)
	if err != nil || !slices.Equal(described.AuthorizationServers, []string{x.idp.issuer}) || described.Resource != x.endpoint(x.one) {
		t.Errorf("%+v, %v", described, err)
	}
	if got := claims(t, x.alice); got["iss"] != x.idp.issuer || got["sub"] != "alice" || got["azp"] != "agents" || fmt.Sprint(got["aud"]) != "["+x.endpoint(x.one)+"]" {
		t.Errorf("the provider's token has %v", got)
	}

	alice := x.agent(x.one, x.alice)
	called := call(t, alice, "compute", `{"seconds":3,"label":"for alice"}`)
	for range 2 * len(x.cluster.BridgePods(t)) { // each at the next replica
		if _, err := alice.GetTask(t.Context(), called.Task.ID); err != nil {
			t.Error(err)
		}
	}
	task := finish(t, alice, called)
	if task.Status != mcpclient.Completed || !strings.Contains(textOf(task.Result), "computed for alice in 3 s") {
		t.Errorf("%s", task.Raw)
	}
	kept := stored(t, x.cluster, x.one, task.ID)
	if owner := kept.Spec.Owner; owner == nil || owner.Issuer != x.idp.issuer || owner.Subject != "alice" {
		t.Errorf("the owner is %+v", owner)
	}
	if kept.Status.JobRef == nil || kept.Status.JobRef.Name != task.ID {
		t.Errorf("the Job is %+v", kept.Status.JobRef)
	}
}

func tokenIsGoodAtOneEndpoint(t *testing.T, x *tenants) {
	for name, token := range map[string]string{"alice's": x.alice, "bob's": x.bob} {
		refused(t, x, name+" at the other's", x.other, token)
	}
	refused(t, x, "carol's at the one's", x.one, x.carol)
	// Good credentials for the other endpoint are not yet a right to call its tools, and reach no task of the one.
	called := call(t, x.agent(x.one, x.alice), "compute", `{"seconds":600}`)
	guest := x.as(x.other, x.token(x.other, "alice", "agents"))
	if response := guest.Call(t, "tools/list", nil); response.Error != nil || !strings.Contains(response.Raw, `"tools":[]`) {
		t.Errorf("alice is offered %s", response.Raw)
	}
	if response := guest.Call(t, "tools/call", map[string]any{"name": "compute"}); response.Error == nil || response.Error.Message != "Unknown tool: compute" {
		t.Errorf("alice calls the other's tool: %s", response.Raw)
	}
	if response := guest.Call(t, "tasks/get", map[string]any{"taskId": called.Task.ID}); response.Error == nil || response.Error.Code != mcpclient.CodeInvalidParams {
		t.Errorf("a task of another namespace: %s", response.Raw)
	}
	carol := x.agent(x.other, x.carol)
	if task := finish(t, carol, call(t, carol, "compute", `{"label":"for carol"}`)); task.Status != mcpclient.Completed {
		t.Errorf("%s", task.Raw)
	}
}

// refused checks that a token is 401 at an endpoint, and that the answer says where to get another and nothing else.
func refused(t *testing.T, x *tenants, what, namespace, token string) {
	t.Helper()
	response := x.as(namespace, token).Call(t, "tools/call", map[string]any{"name": "compute"})
	challenge := response.Header.Get("WWW-Authenticate")
	if response.Status != http.StatusUnauthorized || !strings.HasPrefix(challenge, `Bearer error="invalid_token", resource_metadata="https://`+publicHost+"/") {
		t.Errorf("%s: HTTP %d, %s: %s", what, response.Status, challenge, response.Raw)
	}
	if response.Error == nil || response.Error.Message != "the credentials are not accepted" {
		t.Errorf("%s: %s", what, response.Raw)
	}
}

// callersOfOneClientAreStrangers tries every method of both revisions that can name a task, with alice's task and with none.
func callersOfOneClientAreStrangers(t *testing.T, x *tenants) {
	alice := x.agent(x.one, x.alice)
	called := call(t, alice, "ask", `{"message":"How much, alice?"}`)
	id := called.Task.ID
	key := onlyKey(asked(t, alice, id, 1))
	answer := map[string]any{"action": "accept", "content": map[string]any{"amount": 1}}
	before := stored(t, x.cluster, x.one, id)

	bob := x.as(x.one, x.bob)
	session := bob.Initialize(t, mcptest.LegacyVersion, map[string]any{"elicitation": map[string]any{}})
	strip := func(response *mcptest.Response, id string) string {
		return fmt.Sprint(response.Status, " ", strings.ReplaceAll(response.Raw, id, "TASK"))
	}
	attempts := map[string]func(id string) string{
		"answer 2025-11-25": func(id string) string {
			return strip(session.Respond(t, json.RawMessage(fmt.Sprintf("%q", "mcptask/"+id+"/"+key)), answer, nil), id)
		},
		"listen 2026-07-28": func(id string) string {
			stream := bob.Open(t, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": []string{id}}})
			defer stream.Leave()
			return strings.ReplaceAll(string(stream.Next(time.Minute).Params), id, "TASK")
		},
		"list 2025-11-25": func(string) string {
			response := session.Call(t, "tasks/list", nil)
			if strings.Contains(response.Raw, id) || response.Error != nil {
				t.Errorf("bob's list: %s", response.Raw)
			}
			return ""
		},
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		attempts[method+" 2026-07-28"] = func(id string) string {
			return strip(bob.Call(t, method, map[string]any{"taskId": id, "inputResponses": map[string]any{key: answer}}), id)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/result"} {
		attempts[method+" 2025-11-25"] = func(id string) string {
			return strip(session.Call(t, method, map[string]any{"taskId": id}), id)
		}
	}
	for name, attempt := range attempts {
		theirs, nobodys := attempt(id), attempt(v1alpha1.NewTaskID())
		if theirs != nobodys {
			t.Errorf("%s of alice's task: %s\nof no task: %s", name, theirs, nobodys)
		}
		if strings.Contains(name, "tasks/") && !strings.Contains(theirs, "-32602") {
			t.Errorf("%s: %s", name, theirs)
		}
	}
	if after := stored(t, x.cluster, x.one, id); after.Spec.Cancel != nil || len(after.Spec.InputResponses) > 0 || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("bob changed alice's task: %+v", after.Spec)
	}
	own := x.as(x.one, x.alice).Initialize(t, mcptest.LegacyVersion, nil).Call(t, "tasks/list", nil)
	if !strings.Contains(own.Raw, id) {
		t.Errorf("alice's list lacks her own task: %s", own.Raw)
	}
	if err := alice.CancelTask(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func questionIsAnsweredByTheOwner(t *testing.T, x *tenants) {
	alice := x.agent(x.one, x.alice)
	called := call(t, alice, "ask", `{"message":"How much?"}`)
	key := onlyKey(asked(t, alice, called.Task.ID, 1))
	if err := alice.UpdateTask(t.Context(), called.Task.ID, map[string]any{key: accept(`{"amount":12}`)}); err != nil {
		t.Fatal(err)
	}
	if task := finish(t, alice, called); task.Status != mcpclient.Completed || !strings.Contains(string(task.Raw), `"amount":12`) {
		t.Errorf("%s", task.Raw)
	}
	responses := stored(t, x.cluster, x.one, called.Task.ID).Spec.InputResponses
	if len(responses) != 1 || responses[0].AnsweredBy.Principal != x.idp.issuer+"#alice" {
		t.Errorf("%+v", responses)
	}
}

// auditNamesWho reads the lines that the other parts of the test left.
func auditNamesWho(t *testing.T, x *tenants) {
	type line struct {
		Audit                                                          bool
		Outcome, Why, Issuer, Subject, Method, Namespace, Task, Remote string
	}
	var lines []line
	for _, log := range logs(t, x.cluster, harness.SystemNamespace) {
		for _, text := range strings.Split(log, "\n") {
			var l line
			if json.Unmarshal([]byte(text), &l) == nil && l.Audit {
				lines = append(lines, l)
			}
		}
	}
	// A caller who is not let in is refused before the request is read: its method is "other".
	for name, want := range map[string]line{
		"alice made a task":              {Outcome: "created", Subject: "alice", Method: "tools/call", Namespace: x.one},
		"carol made a task":              {Outcome: "created", Subject: "carol", Method: "tools/call", Namespace: x.other},
		"alice answered":                 {Outcome: "answered", Subject: "alice", Method: "tasks/update", Namespace: x.one},
		"alice cancelled":                {Outcome: "cancelled", Why: "asked for by tasks/cancel", Subject: "alice", Method: "tasks/cancel", Namespace: x.one},
		"bob read alice's task":          {Outcome: "denied", Why: "not the owner of the task", Subject: "bob", Method: "tasks/get", Namespace: x.one},
		"bob cancelled alice's task":     {Outcome: "denied", Why: "not the owner of the task", Subject: "bob", Method: "tasks/cancel", Namespace: x.one},
		"bob answered for alice":         {Outcome: "denied", Why: "not the owner of the task", Subject: "bob", Method: "tasks/update", Namespace: x.one},
		"alice called the other's tool":  {Outcome: "denied", Why: "may not call the tool", Subject: "alice", Method: "tools/call", Namespace: x.other},
		"somebody at the wrong endpoint": {Outcome: "denied", Why: "the credentials are not accepted: the token was made for another audience", Method: "other", Namespace: x.other},
		"an expired token":               {Outcome: "denied", Why: "the credentials are not accepted: the token has expired", Method: "other", Namespace: x.one},
		"a missing scope":                {Outcome: "denied", Why: "the token lacks a scope", Subject: "alice", Method: "other", Namespace: x.one},
	} {
		if !slices.ContainsFunc(lines, func(l line) bool {
			named := want.Subject == "" && l.Issuer == "" || l.Issuer == x.idp.issuer
			return l.Outcome == want.Outcome && l.Why == want.Why && l.Subject == want.Subject && l.Method == want.Method && l.Namespace == want.Namespace && named && l.Remote != ""
		}) {
			t.Errorf("%s: no line like %+v among %d", name, want, len(lines))
		}
	}
}

// noTokenIsKept looks for parts of every token that was sent, in what the parts and the Jobs print and in every object of
// the tenants and of the release.
func noTokenIsKept(t *testing.T, x *tenants) {
	var found strings.Builder
	kinds := strings.Join(slices.DeleteFunc(strings.Fields(kubectl(t, "", "api-resources", "--namespaced", "--verbs=list", "-o", "name")),
		func(kind string) bool { return strings.HasPrefix(kind, "secrets") }), ",")
	for _, namespace := range []string{x.one, x.other, harness.SystemNamespace} {
		for pod, log := range logs(t, x.cluster, namespace) {
			fmt.Fprintf(&found, "%s %s\n", pod, log)
		}
		found.WriteString(kubectl(t, "", "-n", namespace, "get", kinds, "-o", "json"))
		var secrets corev1.SecretList
		if err := x.cluster.Client.List(t.Context(), &secrets, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets.Items {
			for _, value := range secret.Data {
				found.Write(value)
			}
		}
	}
	all := found.String()
	if !strings.Contains(all, `"audit":true`) || !strings.Contains(all, "computing for alice") || !strings.Contains(all, `"kind": "McpTask"`) {
		t.Fatal("the search has not seen logs, tasks and what Jobs print")
	}
	for _, token := range x.idp.tokens {
		parts := strings.Split(token, ".")
		for _, part := range []string{token, parts[1], parts[2], base64.StdEncoding.EncodeToString([]byte(token))} {
			if at := strings.Index(all, part); at >= 0 {
				t.Errorf("a token of %v is kept near %.200s", claims(t, token)["sub"], all[max(0, at-200):at])
			}
		}
	}
}

// replicas are clients that reach one replica of the bridge each, past the proxy.
func (x *tenants) replicas(t *testing.T, namespace, token string) (clients []mcptest.Client) {
	t.Helper()
	for _, replica := range x.cluster.Replicas(t) {
		clients = append(clients, mcptest.Client{URL: replica + "/mcp/" + namespace, Token: token, Tasks: true})
	}
	return clients
}
