//go:build integration

package mcpbridge_test

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// awaits reads notifications of the task until one says the status. States in between may be left out.
func awaits(t *testing.T, s *mcptest.Stream, id, status string) {
	t.Helper()
	for {
		message := s.Next(patience)
		var task struct{ TaskID, Status string }
		if err := json.Unmarshal(message.Params, &task); err != nil || message.Method != "notifications/tasks" || task.TaskID != id {
			t.Fatalf("got %s %s, %v", message.Method, message.Params, err)
		}
		if task.Status == status {
			return
		}
	}
}

func TestAChangeShowsOnStreamsOfAllReplicas(t *testing.T) {
	namespace := newNamespace(t)
	tool := newTool(t, namespace, "crawl", nil)
	replicas := []*replica{startBridge(t, nil), startBridge(t, nil)}
	callers := make([]mcptest.Client, len(replicas))
	for i, replica := range replicas {
		callers[i] = mcptest.Client{URL: replica.url + "/mcp/" + namespace, Tasks: true}
		offered(t, callers[i], "crawl")
	}
	for i := range 4 {
		id := handle(t, callers[i%2], "crawl")
		streams := make([]*mcptest.Stream, len(callers))
		for i, caller := range callers { // also where the handle was not given, whatever the watch shows by now
			streams[i] = caller.Open(t, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": []string{id}}})
			acknowledgement := streams[i].Next(patience)
			if want := fmt.Sprintf(`{"notifications":{"taskIds":[%q]},"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`, id); string(acknowledgement.Params) != want {
				t.Fatalf("got %s, want %s", acknowledgement.Params, want)
			}
			awaits(t, streams[i], id, "working")
		}
		finish(t, namespace, id, completed(`{"content":[{"type":"text","text":"done"}]}`))
		for _, s := range streams {
			awaits(t, s, id, "completed")
			s.Leave()
		}
	}

	tools := make([]*mcptest.Stream, len(callers))
	for i, caller := range callers {
		tools[i] = caller.Open(t, "subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}})
		tools[i].Next(patience)
	}
	setReady(t, tool, metav1.ConditionFalse)
	for _, s := range tools {
		if message := s.Next(patience); message.Method != "notifications/tools/list_changed" {
			t.Errorf("got %s %s", message.Method, message.Params)
		}
	}
}

func TestListenCostsNoRequests(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "crawl")
	id := handle(t, caller, "crawl")
	before := bridge.requests.len()
	s := caller.Open(t, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": []string{id}, "toolsListChanged": true}})
	s.Next(patience)
	awaits(t, s, id, "working")
	finish(t, namespace, id, v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled, Message: "enough"})
	awaits(t, s, id, "cancelled")
	if made := bridge.requests.since(before); len(made) != 0 {
		t.Errorf("the stream made the requests %v", made)
	}
}

func TestARestartingBridgeEndsItsStreams(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "crawl")
	id := handle(t, caller, "crawl")
	s := caller.Open(t, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": []string{id}}})
	s.Next(patience)
	awaits(t, s, id, "working")
	bridge.stop()
	if message := s.Next(patience); string(message.ID) != "1" || message.Error != nil || message.Result == nil {
		t.Errorf("no response but %+v", message)
	}
	if message := s.Next(patience); message.Method != "notifications/cancelled" {
		t.Errorf("got %s %s", message.Method, message.Params)
	}
	s.End(patience)
	if err := bridge.stopped(); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
}
