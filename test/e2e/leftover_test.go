//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// Kubernetes forgets a Pod's exit code and log with the Pod: here somebody deletes it, and both are in the error.
func TestWhatIsDeletedWhileItRunsIsHeardToItsEnd(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	job := func(id string) []string { return []string{"job", id} }
	for name, tc := range map[string]struct {
		args   func(id string) []string
		reason string
	}{
		"kubectl delete job":                      {job, v1alpha1.ReasonJobDeleted},
		"kubectl delete job --cascade=foreground": {func(id string) []string { return append(job(id), "--cascade=foreground") }, v1alpha1.ReasonJobDeleted},
		"kubectl delete job --cascade=orphan":     {func(id string) []string { return append(job(id), "--cascade=orphan") }, v1alpha1.ReasonJobDeleted},
		"kubectl delete pod":                      {func(id string) []string { return []string{"pod", "-l", v1alpha1.LabelTask + "=" + id} }, v1alpha1.ReasonEvicted},
	} {
		t.Run(name, func(t *testing.T) {
			called := call(t, agent, "compute", `{"seconds":600,"label":"for long"}`)
			awaitStored(t, cluster, namespace, called.Task.ID, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
			kubectl(t, "", append([]string{"-n", namespace, "delete"}, tc.args(called.Task.ID)...)...)
			task := finish(t, agent, called)
			if got := stored(t, cluster, namespace, task.ID).Status.Reason; task.Status != mcpclient.Failed || got != tc.reason {
				t.Fatalf("reason %s: %s", got, task.Raw)
			}
			var data struct {
				ExitCode int    `json:"exitCode"`
				Log      string `json:"log"`
			}
			if err := json.Unmarshal(task.Error.Data, &data); err != nil || data.ExitCode != 143 || data.Log != "computing for long\ntold to end; partial result kept\n" {
				t.Errorf("%v, error.data %s", err, task.Error.Data)
			}
			if !strings.Contains(task.Error.Message, "exit code 143") {
				t.Errorf("message %q", task.Error.Message)
			}
		})
	}
}

func TestAToolCalledWhileTheControllerIsAwayRunsWhenItReturns(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	scale := func(ctx context.Context, replicas int) {
		if _, err := harness.Run(ctx, "", "kubectl", "-n", harness.SystemNamespace, "scale", "deployment", "-l", "app.kubernetes.io/component=controller", fmt.Sprintf("--replicas=%d", replicas)); err != nil {
			t.Fatal(err)
		}
	}
	scale(t.Context(), 0)
	t.Cleanup(func() { scale(context.Background(), 1) })
	harness.Eventually(t, time.Minute, "the controller is away", func(ctx context.Context) error {
		var pods corev1.PodList
		err := cluster.Client.List(ctx, &pods, client.InNamespace(harness.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": "controller"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d Pods", len(pods.Items))
		}
		return err
	})
	called := call(t, agent, "compute", `{"label":"later"}`)
	if task, err := agent.GetTask(t.Context(), called.Task.ID); err != nil || task.Status != mcpclient.Working {
		t.Errorf("%v, %+v", err, task)
	}
	scale(t.Context(), 1)
	if task := finish(t, agent, called); task.Status != mcpclient.Completed || !strings.Contains(textOf(task.Result), "computed later") {
		t.Errorf("got %s", task.Raw)
	}
}

// ourFinalizers are the objects of the cluster that a finalizer of the project keeps.
func ourFinalizers(t *testing.T) (held []string) {
	t.Helper()
	kinds := strings.Fields(kubectl(t, "", "api-resources", "--verbs=list", "-o", "name"))
	lines := kubectl(t, "", "get", strings.Join(kinds, ","), "-A", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.finalizers}{"\n"}{end}`)
	for _, line := range strings.Split(lines, "\n") {
		if name, finalizers, _ := strings.Cut(line, " "); strings.Contains(finalizers, "mcptask") {
			held = append(held, name+" "+finalizers)
		}
	}
	if !strings.Contains(lines, "McpTask/") || !strings.Contains(lines, "Job/") || !strings.Contains(lines, "Pod/") {
		t.Errorf("the list lacks tasks, Jobs or Pods:\n%s", lines)
	}
	return held
}

func TestUninstallingHoldsNothingBack(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute", "ask", "no-node", "fails")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	finish(t, agent, call(t, agent, "fails", `{}`))
	running := call(t, agent, "compute", `{"seconds":600}`)
	cancelled := call(t, agent, "compute", `{"seconds":600}`)
	call(t, agent, "no-node", `{}`)
	for _, called := range []*mcpclient.CallResult{running, cancelled} {
		awaitStored(t, cluster, namespace, called.Task.ID, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	}
	if err := agent.CancelTask(t.Context(), cancelled.Task.ID); err != nil {
		t.Fatal(err)
	}
	if held := ourFinalizers(t); len(held) > 0 {
		t.Errorf("while it is installed: %v", held)
	}
	t.Cleanup(func() {
		if _, err := harness.Run(context.Background(), "", "helm", harness.HelmArgs()...); err != nil {
			t.Error(err)
		}
	})
	helm(t, "uninstall", harness.Release, "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m")
	if held := ourFinalizers(t); len(held) > 0 {
		t.Errorf("after it was uninstalled: %v", held)
	}
	began := time.Now()
	kubectl(t, "", "delete", "namespace", namespace, "--wait=false")
	harness.Eventually(t, 2*time.Minute, "the namespace of the tasks is gone", func(ctx context.Context) error {
		var left corev1.Namespace
		err := cluster.Client.Get(ctx, client.ObjectKey{Name: namespace}, &left)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v %+v", err, left.Status)
	})
	t.Logf("the namespace was gone after %s", time.Since(began))
}
