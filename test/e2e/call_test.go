//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// call calls a tool and fails the test when that is refused.
func call(t *testing.T, agent *mcpclient.Client, tool, arguments string) *mcpclient.CallResult {
	t.Helper()
	result, err := agent.CallTool(t.Context(), tool, json.RawMessage(arguments), mcpclient.CallOptions{})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return result
}

// finish waits for the end of the task that a call became.
func finish(t *testing.T, agent *mcpclient.Client, called *mcpclient.CallResult) *mcpclient.Task {
	t.Helper()
	if called.Task == nil {
		t.Fatalf("the call was answered at once: %s", called.Result.Raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	task, err := agent.Wait(ctx, called.Task.ID, nil)
	if err != nil {
		t.Fatalf("waiting for %s: %v", called.Task.ID, err)
	}
	return task
}

func textOf(result *mcpclient.ToolResult) string {
	var all []string
	for _, c := range result.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// stored is the task as kubectl shows it.
func stored(t *testing.T, cluster *harness.Cluster, namespace, id string) *v1alpha1.McpTask {
	t.Helper()
	task := &v1alpha1.McpTask{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: id}, task); err != nil {
		t.Fatal(err)
	}
	return task
}

func refusedWith(t *testing.T, err error, code int64, words string) {
	t.Helper()
	var refused *mcpclient.RPCError
	if !errors.As(err, &refused) || refused.Code != code || !strings.Contains(refused.Message, words) {
		t.Errorf("got %v, want error %d with %q", err, code, words)
	}
}

func TestHandleOfOneReplicaResolvesAtOnceOnTheOther(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	replicas := cluster.Replicas(t)
	one, two := cluster.Agent(t, replicas[0], namespace, "agent", true), cluster.Agent(t, replicas[1], namespace, "agent", true)
	for i := range 5 {
		called := call(t, one, "compute", fmt.Sprintf(`{"label":"round %d"}`, i))
		if _, err := two.GetTask(t.Context(), called.Task.ID); err != nil {
			t.Fatalf("round %d: the other replica does not know the task: %v", i, err)
		}
		if i == 0 {
			task := finish(t, two, called)
			if task.Status != mcpclient.Completed || !strings.Contains(textOf(task.Result), "computed round 0 in 0 s") {
				t.Errorf("got %s", task.Raw)
			}
		}
	}
}

func TestOneJobForATask(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	task := finish(t, agent, call(t, agent, "compute", `{}`))
	var jobs batchv1.JobList
	if err := cluster.Client.List(t.Context(), &jobs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) != 1 || jobs.Items[0].Name != task.ID {
		t.Errorf("the task %s has %d Jobs", task.ID, len(jobs.Items))
	}
}

func TestToolThatExitsThreeIsCompletedAndSaysSo(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "fails")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	task := finish(t, agent, call(t, agent, "fails", `{}`))
	if task.Status != mcpclient.Completed || !task.Result.IsError ||
		!strings.Contains(textOf(task.Result), "exit code 3") || !strings.Contains(textOf(task.Result), "no such host") {
		t.Errorf("got %s", task.Raw)
	}
}

func TestSyncWindowAnswersWhatEndsWithinIt(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "window")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	if called := call(t, agent, "window", `{"seconds":0}`); called.Result == nil || !strings.Contains(textOf(called.Result), "computed windowed") {
		t.Errorf("got a task, want the result at once")
	}
	called := call(t, agent, "window", `{"seconds":600}`)
	if called.Task == nil {
		t.Fatalf("got %s, want a task", called.Result.Raw)
	}
}

func TestCallerWithoutTasks(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute", "short-wait", "required")
	plain := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", false)

	if called := call(t, plain, "compute", `{"label":"plain"}`); called.Result == nil || !strings.Contains(textOf(called.Result), "computed plain") {
		t.Errorf("an Optional tool: got %+v", called)
	}

	_, err := plain.CallTool(t.Context(), "required", nil, mcpclient.CallOptions{})
	refusedWith(t, err, mcpclient.CodeMissingCapability, "")
	var refused *mcpclient.RPCError
	if errors.As(err, &refused) && !strings.Contains(string(refused.Data), `"io.modelcontextprotocol/tasks"`) {
		t.Errorf("data %s names no extension", refused.Data)
	}

	called := call(t, plain, "short-wait", `{}`)
	if called.Result == nil || !called.Result.IsError {
		t.Fatalf("work longer than maxWait: got %+v", called)
	}
	id := regexp.MustCompile(`[a-z][a-z2-7]{25}`).FindString(textOf(called.Result))
	if id == "" || !strings.Contains(textOf(called.Result), "kubectl") {
		t.Fatalf("the answer names no task, or no way to its result: %s", textOf(called.Result))
	}
	if task := stored(t, cluster, namespace, id); task.Status.State.Terminal() || task.Spec.Cancel != nil {
		t.Errorf("the task does not go on: %+v", task.Status)
	}
}

func TestDisconnectWhileWaitingCancelsTheTask(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	plain := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", false)
	ctx, disconnect := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := plain.CallTool(ctx, "compute", json.RawMessage(`{"seconds":600}`), mcpclient.CallOptions{})
		gone <- err
	}()
	var tasks v1alpha1.McpTaskList
	harness.Eventually(t, 30*time.Second, "the call became a task", func(ctx context.Context) error {
		if err := cluster.Client.List(ctx, &tasks, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(tasks.Items) != 1 || tasks.Items[0].Status.State == "" {
			return fmt.Errorf("%d tasks", len(tasks.Items))
		}
		return nil
	})
	disconnect()
	<-gone
	awaitStored(t, cluster, namespace, tasks.Items[0].Name, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
}

// awaitStored waits for the task's state and reason, as kubectl shows them.
func awaitStored(t *testing.T, cluster *harness.Cluster, namespace, id string, state v1alpha1.TaskState, reason string) *v1alpha1.McpTask {
	t.Helper()
	var task *v1alpha1.McpTask
	harness.Eventually(t, time.Minute, "the task is "+string(state)+"/"+reason, func(context.Context) error {
		task = stored(t, cluster, namespace, id)
		if task.Status.State != state || task.Status.Reason != reason {
			return fmt.Errorf("it is %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
		}
		return nil
	})
	return task
}

func TestCancelGivesTheProcessItsGraceAndKeepsItsLog(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	called := call(t, agent, "compute", `{"seconds":600}`)
	awaitStored(t, cluster, namespace, called.Task.ID, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	if err := agent.CancelTask(t.Context(), called.Task.ID); err != nil {
		t.Fatal(err)
	}
	if task := finish(t, agent, called); task.Status != mcpclient.Cancelled {
		t.Errorf("got %s", task.Raw)
	}
	task := stored(t, cluster, namespace, called.Task.ID)
	if task.Status.Result == nil || !strings.Contains(string(task.Status.Result.Inline.Raw), "told to end; partial result kept") {
		t.Errorf("the log of the cancelled work is not kept: %+v", task.Status.Result)
	}
	if task.Spec.Cancel == nil || !strings.Contains(task.Spec.Cancel.By, namespace+":agent") {
		t.Errorf("cancel %+v", task.Spec.Cancel)
	}
}

func TestProgressReachesAWaitingCaller(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "steps")
	plain := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", false)
	var last mcpclient.Progress
	called, err := plain.CallTool(t.Context(), "steps", nil, mcpclient.CallOptions{ProgressToken: "p1", Progress: func(p mcpclient.Progress) {
		if p.Progress <= last.Progress && last.Total != 0 {
			t.Errorf("progress %v after %v", p, last)
		}
		last = p
	}})
	if err != nil || last.Total != 3 || called.Result == nil || called.Result.IsError {
		t.Errorf("%v; %+v; last progress %+v", err, called, last)
	}
}
