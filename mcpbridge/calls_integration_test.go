//go:build integration

package mcpbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// newTool publishes a tool, as the controller would.
func newTool(t testing.TB, namespace, name string, change func(*v1alpha1.McpToolSpec)) *v1alpha1.McpTool {
	t.Helper()
	tool := &v1alpha1.McpTool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.McpToolSpec{
			Description: "A tool of a test.",
			InputSchema: &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"url":{"type":"string"},"depth":{"type":"integer","maximum":5}}}`)},
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}}}}},
		},
	}
	if change != nil {
		change(&tool.Spec)
	}
	if err := k8s.Create(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
	setReady(t, tool, metav1.ConditionTrue)
	return tool
}

func setReady(t testing.TB, tool *v1alpha1.McpTool, status metav1.ConditionStatus) {
	t.Helper()
	tool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: "Ready",
		ObservedGeneration: tool.Generation, LastTransitionTime: metav1.Now()}}
	if err := k8s.Status().Update(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
}

// finish ends a task, as the controller would. Where a controller runs too, it may have written in between.
func finish(t *testing.T, namespace, name string, status v1alpha1.McpTaskStatus) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		task := &v1alpha1.McpTask{}
		if err := k8s.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, task); err != nil {
			return err
		}
		task.Status = status
		return k8s.Status().Update(t.Context(), task)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// only waits for the only task of a namespace.
func only(t *testing.T, namespace string) *v1alpha1.McpTask {
	t.Helper()
	list := &v1alpha1.McpTaskList{}
	eventually(t, "there is a task", func() bool {
		if err := k8s.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 1
	})
	return &list.Items[0]
}

// handle calls the tool and returns the task that the caller got.
func handle(t *testing.T, caller mcptest.Client, tool string) string {
	t.Helper()
	response := caller.Call(t, "tools/call", map[string]any{"name": tool, "arguments": map[string]any{"url": "x"}})
	var handle struct{ ResultType, TaskID string }
	if response.Error != nil || json.Unmarshal(response.Result, &handle) != nil || handle.ResultType != "task" {
		t.Fatalf("no handle but HTTP %d with %s", response.Status, response.Raw)
	}
	return handle.TaskID
}

// status of a task, as tasks/get says it.
func status(t *testing.T, caller mcptest.Client, id string) string {
	t.Helper()
	response := caller.Call(t, "tasks/get", map[string]any{"taskId": id})
	var task struct{ Status string }
	if response.Error != nil || json.Unmarshal(response.Result, &task) != nil {
		t.Fatalf("tasks/get %s: HTTP %d with %s", id, response.Status, response.Raw)
	}
	return task.Status
}

func completed(result string) v1alpha1.McpTaskStatus {
	return v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(result)}}}
}

// offered waits until the replica lists the tool.
func offered(t testing.TB, client mcptest.Client, name string) {
	t.Helper()
	eventually(t, "tools/list shows "+name, func() bool {
		var list struct {
			Tools []struct{ Name string }
		}
		response := client.Call(t, "tools/list", nil)
		if response.Error != nil {
			t.Fatalf("tools/list: %+v", response.Error)
		}
		if err := json.Unmarshal(response.Result, &list); err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if tool.Name == name {
				return true
			}
		}
		return false
	})
}

func TestEveryReplicaKnowsATaskAtOnce(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	replicas := []*replica{startBridge(t, nil), startBridge(t, nil)}
	callers := make([]mcptest.Client, len(replicas))
	for i, replica := range replicas {
		callers[i] = mcptest.Client{URL: replica.url + "/mcp/" + namespace, Tasks: true}
		offered(t, callers[i], "crawl")
	}
	for i := range 20 {
		id := handle(t, callers[i%2], "crawl")
		for _, caller := range callers {
			if got := status(t, caller, id); got != "working" {
				t.Errorf("the status is %s", got)
			}
		}
		finish(t, namespace, id, completed(`{"content":[{"type":"text","text":"done"}]}`))
		for _, caller := range callers {
			eventually(t, "both replicas show the result", func() bool { return status(t, caller, id) == "completed" })
		}
	}
}

func TestPollsCostNoRequests(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "crawl")
	before := bridge.requests.len()
	id := handle(t, caller, "crawl")
	if made := bridge.requests.since(before); len(made) != 1 || !strings.HasPrefix(made[0], "POST ") {
		t.Errorf("a call made the requests %v", made)
	}
	before = bridge.requests.len()
	for range 100 {
		status(t, caller, id)
	}
	finish(t, namespace, id, completed(`{}`))
	eventually(t, "the result is shown", func() bool { return status(t, caller, id) == "completed" })
	for range 100 {
		status(t, caller, id)
	}
	if made := bridge.requests.since(before); len(made) != 0 {
		t.Errorf("200 polls made the requests %v", made)
	}
}

func TestCancelIsStoredOnce(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	one, two := startBridge(t, nil), startBridge(t, nil)
	caller := mcptest.Client{URL: one.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "crawl")
	id := handle(t, caller, "crawl")
	other := caller
	other.URL = two.url + "/mcp/" + namespace
	for _, c := range []mcptest.Client{caller, caller, other, other} { // at two replicas, whatever their watches show
		if response := c.Call(t, "tasks/cancel", map[string]any{"taskId": id}); response.Error != nil {
			t.Errorf("got %s", response.Raw)
		}
	}
	if request := only(t, namespace).Spec.Cancel; request == nil || request.By != "anonymous:anonymous" || request.At == nil {
		t.Errorf("stored is %+v", request)
	}
}

func TestTheDisconnectOfAWaitingCallerCancels(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace}
	offered(t, caller, "crawl")
	ctx, leave := context.WithCancel(t.Context())
	request, err := caller.Request(ctx, "tools/call", map[string]any{"name": "crawl"})
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		_, err := mcptest.Do(request)
		left <- err
	}()
	id := only(t, namespace).Name
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	eventually(t, "the task is cancelled", func() bool {
		task := only(t, namespace)
		return task.Name == id && task.Spec.Cancel != nil && strings.Contains(task.Spec.Cancel.Reason, "disconnected")
	})
}

func TestAWaitingCallGetsItsResult(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", func(s *v1alpha1.McpToolSpec) {
		s.OutputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"pages":{"type":"integer"}}}`)}
	})
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace}
	offered(t, caller, "crawl")
	answer := make(chan *mcptest.Response, 1)
	go func() { answer <- caller.Call(t, "tools/call", map[string]any{"name": "crawl"}) }()
	finish(t, namespace, only(t, namespace).Name, completed(`{"structuredContent":{"pages":3}}`))
	response := <-answer
	var result struct {
		ResultType        string
		StructuredContent struct{ Pages int }
		Content           []struct{ Text string }
	}
	if response.Error != nil || json.Unmarshal(response.Result, &result) != nil || result.ResultType != "complete" ||
		result.StructuredContent.Pages != 3 || len(result.Content) != 1 || result.Content[0].Text != `{"pages":3}` {
		t.Errorf("got %s", response.Raw)
	}
}

func TestARestartingBridgeCancelsNothing(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace}
	offered(t, caller, "crawl")
	answer := make(chan *mcptest.Response, 1)
	go func() { answer <- caller.Call(t, "tools/call", map[string]any{"name": "crawl"}) }()
	id := only(t, namespace).Name
	bridge.stop()
	response := <-answer
	if response.Error == nil || !strings.Contains(response.Error.Message, "kubectl get mcptask "+id+" -n "+namespace) {
		t.Errorf("got %s", response.Raw)
	}
	if err := bridge.stopped(); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	if only(t, namespace).Spec.Cancel != nil {
		t.Error("the task was cancelled")
	}
	next := startBridge(t, nil)
	caller = mcptest.Client{URL: next.url + "/mcp/" + namespace, Tasks: true}
	if got := status(t, caller, id); got != "working" {
		t.Errorf("after the restart the status is %s", got)
	}
}

func TestToolsComeAndGo(t *testing.T) {
	namespace := newNamespace(t)
	tool := newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "crawl")
	gone := func() bool {
		response := caller.Call(t, "tools/call", map[string]any{"name": "crawl"})
		return response.Error != nil && response.Error.Code == -32602 && response.Error.Message == "Unknown tool: crawl"
	}
	setReady(t, tool, metav1.ConditionFalse)
	eventually(t, "a tool that is not ready cannot be called", gone)
	setReady(t, tool, metav1.ConditionTrue)
	offered(t, caller, "crawl")
	if err := k8s.Delete(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted tool cannot be called", gone)
}
