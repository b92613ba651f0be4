//go:build integration

package mcpbridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// inSecrets is a result of the task that stands in Secrets.
func inSecrets(t *testing.T, task *v1alpha1.McpTask, result *v1alpha1.TaskResult) []byte {
	t.Helper()
	with := task.DeepCopy()
	with.Status.Result = result
	raw, err := resultsecret.Read(t.Context(), with, func(ctx context.Context, at types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, k8s.Get(ctx, at, secret)
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// parts are the Secrets of a task.
func parts(t *testing.T, key types.NamespacedName) []corev1.Secret {
	t.Helper()
	var list corev1.SecretList
	if err := k8s.List(t.Context(), &list, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelTask: key.Name}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// handOver uploads a result and reports it.
func (p podOf) handOver(t *testing.T, uploadTo, reportTo *replica, sequence int, raw string) {
	t.Helper()
	hash := resultsecret.Hash([]byte(raw))
	eventually(t, "the result is stored", func() bool {
		s := p.call(t, uploadTo, http.MethodPut, "results/"+hash, raw)
		if s.status != http.StatusOK && s.status != http.StatusConflict {
			t.Fatalf("HTTP %d with %s", s.status, s.raw)
		}
		return s.status == http.StatusOK
	})
	if s := p.report(t, reportTo, fmt.Sprintf(`{"sequence":%d,"outcome":"result","resultRef":{"sha256":%q,"bytes":%d}}`, sequence, hash, len(raw))); s.status != http.StatusOK {
		t.Fatalf("HTTP %d with %s", s.status, s.raw)
	}
}

// largeResult is a CallToolResult with so many bytes of structured content.
func largeResult(bytes int) string {
	return `{"content":[],"structuredContent":{"text":"` + strings.Repeat("x", bytes) + `"}}`
}

// take ends a task with the result that a Pod reported, as the controller does.
func take(t *testing.T, key types.NamespacedName) *v1alpha1.McpTask {
	t.Helper()
	task := stored(t, key)
	finish(t, key.Namespace, key.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: task.Status.Runtime[0].Result})
	return stored(t, key)
}

func TestLargeResultsGoThroughAnyReplica(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "large", func(s *v1alpha1.McpToolSpec) { s.Result.MaxBytes = 8 << 20 })
	bridges := []*replica{startBridge(t, nil), startBridge(t, nil)}
	callers := []mcptest.Client{{URL: bridges[0].url + "/mcp/" + namespace, Tasks: true}, {URL: bridges[1].url + "/mcp/" + namespace, Tasks: true}}
	offered(t, callers[0], "large")
	for i, size := range []int{20_000, 500_000, 5_000_000} {
		key := types.NamespacedName{Namespace: namespace, Name: handle(t, callers[i%2], "large")}
		pod := startPods(t, key, 1)[0]
		raw := largeResult(size)
		// It may come twice at one time: a sidecar tries again through another replica.
		var sending sync.WaitGroup
		for _, to := range bridges {
			sending.Go(func() {
				eventually(t, "the result is stored", func() bool {
					s := pod.call(t, to, http.MethodPut, "results/"+resultsecret.Hash([]byte(raw)), raw)
					if s.status != http.StatusOK && s.status != http.StatusConflict {
						t.Errorf("HTTP %d with %s", s.status, s.raw)
					}
					return s.status != http.StatusConflict
				})
			})
		}
		sending.Wait()
		pod.handOver(t, bridges[0], bridges[1], 1, raw)
		want := (len(raw) + resultsecret.PartBytes - 1) / resultsecret.PartBytes
		if made := parts(t, key); len(made) != want {
			t.Errorf("%d bytes became %d Secrets, not %d", len(raw), len(made), want)
		}
		task := take(t, key)
		if got := inSecrets(t, task, task.Status.Result); string(got) != raw {
			t.Errorf("%d bytes are stored as %d", len(raw), len(got))
		}
		for n, caller := range callers {
			eventually(t, "the task is completed", func() bool { return status(t, caller, key.Name) == "completed" })
			before := bridges[n].requests.len()
			for range 3 {
				response := caller.Call(t, "tasks/get", map[string]any{"taskId": key.Name})
				var got struct {
					Result struct {
						Content           []struct{ Text string }
						StructuredContent struct{ Text string }
					}
				}
				if err := json.Unmarshal(response.Result, &got); err != nil || len(got.Result.StructuredContent.Text) != size ||
					len(got.Result.Content) != 1 || got.Result.Content[0].Text != `{"text":"`+strings.Repeat("x", size)+`"}` {
					t.Errorf("%v: %d bytes of structured content, %d blocks", err, len(got.Result.StructuredContent.Text), len(got.Result.Content))
				}
			}
			if asked := bridges[n].requests.since(before); len(asked) > 0 {
				t.Errorf("a result that was read is read again: %v", asked)
			}
		}
	}
}

func TestAResultThatIsLostIsSaidToBe(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "large", nil)
	var log lockedBuffer
	bridge := startBridge(t, func(o *mcpbridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "large")
	key := types.NamespacedName{Namespace: namespace, Name: handle(t, caller, "large")}
	startPods(t, key, 1)[0].handOver(t, bridge, bridge, 1, largeResult(600_000))
	made := parts(t, key)
	take(t, key)
	if err := k8s.Delete(t.Context(), &made[1]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is told", func() bool {
		response := caller.Call(t, "tasks/get", map[string]any{"taskId": key.Name})
		return response.Error != nil && response.Error.Code == -32603 && strings.Contains(response.Error.Message, "its result is lost")
	})
	if !strings.Contains(log.String(), "the Secret "+namespace+"/"+made[1].Name+" is missing") {
		t.Errorf("the log does not name the Secret:\n%s", log.String())
	}
	if strings.Contains(caller.Call(t, "tasks/get", map[string]any{"taskId": key.Name}).Raw, made[1].Name) {
		t.Error("the agent is told the name of the Secret")
	}
}

func TestASmallResultThatHasComeCostsNoRead(t *testing.T) {
	namespace := newNamespace(t)
	newTool(t, namespace, "small", nil)
	bridge := startBridge(t, nil)
	caller := mcptest.Client{URL: bridge.url + "/mcp/" + namespace, Tasks: true}
	offered(t, caller, "small")
	first := handle(t, caller, "small")
	finish(t, namespace, first, completed(`{"content":[{"type":"text","text":"the first"}]}`))
	eventually(t, "it is completed", func() bool { return status(t, caller, first) == "completed" })
	before := bridge.requests.len()
	if response := caller.Call(t, "tasks/get", map[string]any{"taskId": first}); !strings.Contains(response.Raw, "the first") || len(bridge.requests.since(before)) > 0 {
		t.Errorf("a result that has just come costs %v: %s", bridge.requests.since(before), response.Raw)
	}
	other := startBridge(t, nil)
	again := mcptest.Client{URL: other.url + "/mcp/" + namespace, Tasks: true}
	before = other.requests.len()
	if response := again.Call(t, "tasks/get", map[string]any{"taskId": first}); !strings.Contains(response.Raw, "the first") || len(other.requests.since(before)) > 0 {
		t.Errorf("after a start it costs %v: %s", other.requests.since(before), response.Raw)
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
