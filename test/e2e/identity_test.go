//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

func TestStrangerIsToldThatThereIsNoSuchTask(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	replica := cluster.Replicas(t)[0]
	agent, stranger := cluster.Agent(t, replica, namespace, "agent", true), cluster.Agent(t, replica, namespace, "stranger", true)
	called := call(t, agent, "compute", `{"seconds":600}`)

	_, theirs := stranger.GetTask(t.Context(), called.Task.ID)
	_, nobodys := stranger.GetTask(t.Context(), v1alpha1.NewTaskID())
	var a, b *mcpclient.RPCError
	if !errors.As(theirs, &a) || !errors.As(nobodys, &b) || a.Code != mcpclient.CodeInvalidParams || a.Message != b.Message || a.HTTPStatus != b.HTTPStatus {
		t.Errorf("somebody else's task: %v; no task: %v", theirs, nobodys)
	}
	refusedWith(t, stranger.CancelTask(t.Context(), called.Task.ID), mcpclient.CodeInvalidParams, "")
	if task := stored(t, cluster, namespace, called.Task.ID); task.Spec.Cancel != nil || task.Spec.Owner.Subject != "system:serviceaccount:"+namespace+":agent" {
		t.Errorf("spec %+v", task.Spec)
	}
}

// Out of the box a caller may call nothing; the chart's role lets it.
func TestCallersAreOfferedWhatRBACLetsThemCall(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	if err := cluster.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "newcomer", Namespace: namespace}}); err != nil {
		t.Fatal(err)
	}
	newcomer := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "newcomer", true)
	offered := func(ctx context.Context, want int) error {
		tools, err := newcomer.ListTools(ctx)
		if err == nil && len(tools) != want {
			err = fmt.Errorf("%d tools are offered, not %d", len(tools), want)
		}
		return err
	}
	if err := offered(t.Context(), 0); err != nil {
		t.Error(err)
	}
	_, err := newcomer.CallTool(t.Context(), "compute", json.RawMessage(`{}`), mcpclient.CallOptions{})
	refusedWith(t, err, mcpclient.CodeInvalidParams, "Unknown tool: compute")
	cluster.LetCall(t, namespace, "newcomer")
	harness.Eventually(t, time.Minute, "the tool is offered", func(ctx context.Context) error { return offered(ctx, 1) })
	call(t, newcomer, "compute", `{"seconds":1}`)
}

func TestTokenMustBeMadeForTheEndpoint(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	other := cluster.Namespace(t)
	replica := cluster.Replicas(t)[0]
	for name, token := range map[string]string{
		"none":                       "",
		"nonsense":                   "nonsense",
		"of the other endpoint":      cluster.Token(t, other, "agent", harness.Audience(other)),
		"for the API server":         cluster.Token(t, namespace, "agent", "https://kubernetes.default.svc.cluster.local"),
		"for the bridge as a whole":  cluster.Token(t, namespace, "agent", harness.PublicURL),
		"for a longer name's prefix": cluster.Token(t, namespace, "agent", harness.Audience(namespace)+"x"),
	} {
		t.Run(name, func(t *testing.T) {
			client := mcpclient.New(replica+"/mcp/"+namespace, mcpclient.Options{Tasks: true, Token: func(context.Context) (string, error) { return token, nil }})
			_, err := client.CallTool(t.Context(), "compute", json.RawMessage(`{}`), mcpclient.CallOptions{})
			var refused *mcpclient.RPCError
			if !errors.As(err, &refused) || refused.HTTPStatus != 401 {
				t.Errorf("got %v, want HTTP 401", err)
			}
		})
	}
}

func TestCallerWithoutTheExtensionMayNotTouchTasks(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	replica := cluster.Replicas(t)[0]
	agent, plain := cluster.Agent(t, replica, namespace, "agent", true), cluster.Agent(t, replica, namespace, "agent", false)
	called := call(t, agent, "compute", `{"seconds":600}`)
	refusedWith(t, plain.CancelTask(t.Context(), called.Task.ID), mcpclient.CodeMissingCapability, "")
	_, err := plain.GetTask(t.Context(), v1alpha1.NewTaskID())
	refusedWith(t, err, mcpclient.CodeMissingCapability, "")
	task, err := agent.GetTask(t.Context(), called.Task.ID)
	if err != nil || task.Status != mcpclient.Working {
		t.Errorf("the task does not run on: %v %+v", err, task)
	}
}

// Where nobody could call the bridge, the chart is not installed, and says what to set; any one source will do.
func TestTheChartWantsASourceOfIdentities(t *testing.T) {
	template := func(values string) (string, error) {
		return harness.Run(t.Context(), "auth: "+values, "helm", "template", harness.Release, "charts/mcptask", "--values", "-")
	}
	out, err := template("{tokenReview: false}")
	if err == nil || !strings.Contains(out, "nobody could call the bridge") {
		t.Errorf("%v: %.500s", err, out)
	}
	for _, words := range []string{"auth.tokenReview", "auth.oidc.issuers", "auth.apiKeys.secret", "auth.anonymous"} {
		if !strings.Contains(out, words) {
			t.Errorf("%s is not named: %.500s", words, out)
		}
	}
	for values, argument := range map[string]string{
		"{tokenReview: true}":                                                             "--token-review=true",
		"{tokenReview: false, anonymous: true}":                                           "--allow-anonymous=true",
		"{tokenReview: false, apiKeys: {secret: keys}}":                                   "--api-keys-folder=",
		`{tokenReview: false, oidc: {issuers: [{issuer: "https://issuer.example.com"}]}}`: "--issuers-file=",
	} {
		if out, err := template(values); err != nil || !strings.Contains(out, argument) {
			t.Errorf("%s: %v", values, err)
		}
	}
}
