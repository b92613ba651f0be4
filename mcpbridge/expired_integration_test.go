//go:build integration

package mcpbridge_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// expired ends a task whose ttl passed before it had ended, as the controller would, and lets it be kept for so long from its creation.
func expired(t *testing.T, key types.NamespacedName, words string, kept time.Duration) {
	t.Helper()
	now := metav1.Now()
	expires := metav1.NewTime(stored(t, key).CreationTimestamp.Add(kept))
	finish(t, key.Namespace, key.Name, v1alpha1.McpTaskStatus{
		State: v1alpha1.TaskFailed, Reason: v1alpha1.ReasonExpired, Message: words, Error: &v1alpha1.TaskError{Code: -32603, Message: words},
		FinishedAt: &now, ExpiresAt: &expires, LastUpdatedAt: &metav1.MicroTime{Time: now.Time},
	})
}

// What has expired is there to be read until it is deleted, and not a moment longer; nothing is gone before its ttlMs has passed.
func TestAnExpiredTaskIsReadAsFailedUntilItIsDeleted(t *testing.T) {
	const words = "the task's ttl of 1s passed while it was Running (the tool is running on node-1)"
	const kept = 4 * time.Second
	namespace := newNamespace(t)
	newTool(t, namespace, "crawl", func(s *v1alpha1.McpToolSpec) {
		s.TTL = &v1alpha1.TTLPolicy{Default: &metav1.Duration{Duration: time.Second}}
	})
	var agents []mcptest.Client
	var sessions []*mcptest.Session
	for _, r := range []*replica{startBridge(t, nil), startBridge(t, nil)} {
		agent := mcptest.Client{URL: r.url + "/mcp/" + namespace, Tasks: true}
		offered(t, agent, "crawl")
		agents, sessions = append(agents, agent), append(sessions, agent.Initialize(t, mcptest.LegacyVersion, nil))
	}
	key := types.NamespacedName{Namespace: namespace, Name: handle(t, agents[0], "crawl")}
	created := stored(t, key).CreationTimestamp.Time
	params := map[string]any{"taskId": key.Name}

	// Its ttl has passed, and the controller has not come round to it: it is still a task that works.
	eventually(t, "its ttl passes", func() bool { return time.Since(created) > time.Second })
	for _, agent := range agents {
		if got := status(t, agent, key.Name); got != "working" {
			t.Errorf("before the controller has seen it, it is %s", got)
		}
	}

	expired(t, key, words, kept)
	shown := func() {
		t.Helper()
		for _, agent := range agents {
			var task struct {
				Status, StatusMessage string
				TTLMs                 int64
				Error                 *mcptest.Error
				Result                json.RawMessage
			}
			response := agent.Call(t, "tasks/get", params)
			if response.Error != nil || json.Unmarshal(response.Result, &task) != nil || task.Status != "failed" || task.StatusMessage != words || task.TTLMs != kept.Milliseconds() ||
				task.Error == nil || task.Error.Code != -32603 || task.Error.Message != words || task.Result != nil {
				t.Errorf("tasks/get: %s", response.Raw)
			}
		}
		for _, session := range sessions {
			var task struct {
				Status, StatusMessage string
				TTL                   int64
			}
			response := session.Call(t, "tasks/get", params)
			if response.Error != nil || json.Unmarshal(response.Result, &task) != nil || task.Status != "failed" || task.StatusMessage != words || task.TTL != kept.Milliseconds() {
				t.Errorf("tasks/get of 2025-11-25: %s", response.Raw)
			}
			if response := session.Call(t, "tasks/result", params); response.Error == nil || response.Error.Code != -32603 || !strings.Contains(response.Error.Message, words) {
				t.Errorf("tasks/result of 2025-11-25: %s", response.Raw)
			}
		}
	}
	for _, agent := range agents {
		eventually(t, "every replica shows the end", func() bool { return status(t, agent, key.Name) == "failed" })
	}
	shown()
	// As long as the object is there the task is, however late its deletion comes.
	eventually(t, "its ttlMs pass", func() bool { return time.Since(created) > kept })
	shown()

	if err := k8s.Delete(t.Context(), stored(t, key)); err != nil {
		t.Fatal(err)
	}
	call := func(i int, method string) map[string]*mcptest.Response {
		return map[string]*mcptest.Response{mcptest.Version: agents[i].Call(t, method, params), mcptest.LegacyVersion: sessions[i].Call(t, method, params)}
	}
	for i := range agents {
		eventually(t, "no replica knows it any more", func() bool { return agents[i].Call(t, "tasks/get", params).Error != nil })
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			for version, response := range call(i, method) {
				if response.Error == nil || response.Error.Code != -32602 {
					t.Errorf("%s of %s: %s", method, version, response.Raw)
				}
			}
		}
		never := map[string]any{"taskId": v1alpha1.NewTaskID()}
		if gone, nobody := agents[i].Call(t, "tasks/get", params), agents[i].Call(t, "tasks/get", never); gone.Raw != nobody.Raw {
			t.Errorf("of a task that is gone %s, of one that never was %s", gone.Raw, nobody.Raw)
		}
		if response := sessions[i].Call(t, "tasks/result", params); response.Error == nil || response.Error.Code != -32602 {
			t.Errorf("tasks/result of 2025-11-25: %s", response.Raw)
		}
	}
}
