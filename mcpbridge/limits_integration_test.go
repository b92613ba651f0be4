//go:build integration

package mcpbridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// limitOf is the limit that refused a call; "" for one that was let in.
func limitOf(t *testing.T, response *mcptest.Response) string {
	t.Helper()
	if response.Error == nil {
		return ""
	}
	var data struct {
		Limit             string
		Value             int64
		RetryAfterSeconds int64
	}
	if response.Error.Code != 429 || json.Unmarshal(response.Error.Data, &data) != nil || data.Value < 1 || data.RetryAfterSeconds < 1 || response.Header.Get("Retry-After") == "" {
		t.Fatalf("refused with HTTP %d and %s", response.Status, response.Raw)
	}
	return data.Limit
}

func agent(r *replica, namespace string) mcptest.Client {
	return mcptest.Client{URL: r.url + "/mcp/" + namespace, Tasks: true}
}

func call(t *testing.T, r *replica, namespace, tool string) *mcptest.Response {
	t.Helper()
	return agent(r, namespace).Call(t, "tools/call",
		map[string]any{"name": tool, "arguments": map[string]any{"url": "x"}})
}

func tasksOf(t *testing.T, namespace string) []v1alpha1.McpTask {
	t.Helper()
	var list v1alpha1.McpTaskList
	if err := k8s.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// What one replica lets in counts at the others; a task that ends makes room; nothing is made of a refused call.
func TestLimitsHoldAcrossReplicas(t *testing.T) {
	namespace := newNamespace(t)
	change := func(o *mcpbridge.Options) { o.Limits.RunningTasksPerCaller = 3 }
	one, other := startBridge(t, change), startBridge(t, change)
	newTool(t, namespace, "tool", nil)
	newTool(t, namespace, "single", func(s *v1alpha1.McpToolSpec) { s.Limits = &v1alpha1.ToolLimits{RunningTasks: ptr.To[int64](1)} })
	for _, r := range []*replica{one, other} {
		offered(t, agent(r, namespace), "tool")
		offered(t, agent(r, namespace), "single")
	}
	handle(t, agent(one, namespace), "single")
	kept := handle(t, agent(one, namespace), "tool")
	handle(t, agent(other, namespace), "tool")
	for _, r := range []*replica{one, other} {
		eventually(t, "the replica has heard of all tasks", func() bool { return limitOf(t, call(t, r, namespace, "tool")) == "runningTasksPerCaller" })
	}
	made := tasksOf(t, namespace) // a replica that had not heard of all has let one more in
	for _, task := range made {
		if task.Spec.ToolName == "tool" && task.Name != kept {
			finish(t, namespace, task.Name, completed(`{"content":[]}`))
		}
	}
	for _, r := range []*replica{one, other} {
		eventually(t, "the tool's own limit is told", func() bool { return limitOf(t, call(t, r, namespace, "single")) == "tool.runningTasks" })
	}
	if n := len(tasksOf(t, namespace)); n != len(made) || n > 5 {
		t.Errorf("there are %d tasks, of %d before", n, len(made))
	}
	handle(t, agent(other, namespace), "tool")
}

// Two replicas may exceed a limit only by what is being made at one moment.
func TestAFloodThroughTwoReplicasStaysNearTheLimit(t *testing.T) {
	const limit, senders = 20, 8
	namespace := newNamespace(t)
	change := func(o *mcpbridge.Options) { o.Limits.RunningTasksPerCaller = limit }
	replicas := []*replica{startBridge(t, change), startBridge(t, change)}
	newTool(t, namespace, "tool", nil)
	for _, r := range replicas {
		offered(t, agent(r, namespace), "tool")
	}
	var flood sync.WaitGroup
	var refused atomic.Int64
	for i := range senders {
		flood.Go(func() {
			for range 3 * limit / senders {
				if call(t, replicas[i%2], namespace, "tool").Error != nil {
					refused.Add(1)
				}
			}
		})
	}
	flood.Wait()
	if n := len(tasksOf(t, namespace)); n < limit || n > limit+senders || refused.Load() == 0 {
		t.Errorf("%d tasks of %d, %d calls refused", n, limit, refused.Load())
	}
}

// Stored tasks are bounded, and none is deleted for it.
func TestAFullNamespaceRefusesNewTasks(t *testing.T) {
	namespace := newNamespace(t)
	r := startBridge(t, func(o *mcpbridge.Options) {
		o.Limits.StoredTasksPerNamespace, o.Limits.StoredTasksPerCaller, o.Limits.RunningTasksPerCaller = 3, 2, 2
	})
	newTool(t, namespace, "tool", nil)
	offered(t, agent(r, namespace), "tool")
	for range 2 {
		finish(t, namespace, handle(t, agent(r, namespace), "tool"), completed(`{"content":[]}`))
	}
	eventually(t, "the caller's limit is told", func() bool { return limitOf(t, call(t, r, namespace, "tool")) == "storedTasksPerCaller" })
	if n := len(tasksOf(t, namespace)); n != 2 {
		t.Errorf("there are %d tasks", n)
	}
}

// The quota that bounds those who come with kubectl is told to agents like a limit of the bridge's own.
func TestAQuotaForTasksIsToldLikeALimit(t *testing.T) {
	namespace := newNamespace(t)
	r := startBridge(t, nil)
	newTool(t, namespace, "tool", nil)
	offered(t, agent(r, namespace), "tool")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tasks"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/mcptasks.mcptask.dev": resource.MustParse("1")}}}
	if err := k8s.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{"count/mcptasks.mcptask.dev": resource.MustParse("1")}}
	if err := k8s.Status().Update(t.Context(), quota); err != nil { // no controller counts here
		t.Fatal(err)
	}
	var last string
	eventually(t, "the quota holds", func() bool {
		response := call(t, r, namespace, "tool")
		last = response.Raw
		return response.Error != nil && limitOf(t, response) == "resourceQuota"
	})
	if !strings.Contains(last, fmt.Sprintf(`"value":%d`, 1)) {
		t.Error(last)
	}
}
