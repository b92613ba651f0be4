package endpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	forbidden = v1alpha1.TaskSupportForbidden
	optional  = v1alpha1.TaskSupportOptional
	long      = time.Hour
)

type result struct {
	ResultType string
	TaskID     string
	IsError    bool
	Content    []struct{ Type, Text string }
	Meta       map[string]json.RawMessage `json:"_meta"`
}

func read(t *testing.T, response *mcptest.Response) result {
	t.Helper()
	var r result
	if response.Error != nil {
		t.Fatalf("an error: %s", response.Raw)
	}
	if err := json.Unmarshal(response.Result, &r); err != nil {
		t.Fatalf("%v in %s", err, response.Raw)
	}
	return r
}

func TestWhoWaitsGetsTheResult(t *testing.T) {
	for name, tc := range map[string]struct {
		tasks   bool
		support v1alpha1.TaskSupport
		window  time.Duration
	}{
		"a caller without tasks":      {false, optional, 0},
		"a tool without tasks":        {true, forbidden, 0},
		"within the sync window":      {true, optional, long},
		"required, within its window": {true, v1alpha1.TaskSupportRequired, long},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.offer("tool", waits(tc.support, tc.window, long))
			client := f.alice
			client.Tasks = tc.tasks
			answer, _ := start(t, client, "tools/call", map[string]any{"name": "tool"})
			task := f.cluster.only(t)
			f.cluster.change(t, task.Name, completed(`{"content":[{"type":"text","text":"done"}],"_meta":{"n":12345678901234567890}}`))
			response := answer()
			r := read(t, response)
			if r.ResultType != "complete" || r.IsError || len(r.Content) != 1 || r.Content[0].Text != "done" {
				t.Errorf("got %s", response.Raw)
			}
			if string(r.Meta["n"]) != "12345678901234567890" || len(r.Meta["io.modelcontextprotocol/serverInfo"]) == 0 {
				t.Errorf("_meta is %s", response.Raw)
			}
			if response.Comments == 0 || response.Header.Get("X-Accel-Buffering") != "no" || response.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("the stream did not begin with the wait: %v, %s", response.Header, response.Raw)
			}
		})
	}
}

func TestHowAWaitEnds(t *testing.T) {
	failed := v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Message: "node lost",
		Error: &v1alpha1.TaskError{Code: -32603, Message: "the node is gone"}}
	for name, end := range map[string]func(t *testing.T, f *fixture, task *v1alpha1.McpTask) func(*testing.T, *mcptest.Response){
		"failed": func(t *testing.T, f *fixture, task *v1alpha1.McpTask) func(*testing.T, *mcptest.Response) {
			f.cluster.change(t, task.Name, failed)
			return func(t *testing.T, r *mcptest.Response) { failsWith(t, r, -32603, 200, "the node is gone") }
		},
		"failed with a code that is a bad request elsewhere": func(t *testing.T, f *fixture, task *v1alpha1.McpTask) func(*testing.T, *mcptest.Response) {
			status := failed
			status.Error = &v1alpha1.TaskError{Code: -32602, Message: "no such repository"}
			f.cluster.change(t, task.Name, status)
			return func(t *testing.T, r *mcptest.Response) {
				failsWith(t, r, -32602, 200, "no such repository")
				if !strings.Contains(r.Raw, "event: message\ndata: {") {
					t.Errorf("the error is no event: %s", r.Raw)
				}
			}
		},
		"cancelled": func(t *testing.T, f *fixture, task *v1alpha1.McpTask) func(*testing.T, *mcptest.Response) {
			f.cluster.change(t, task.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled, Message: "by bob"})
			return func(t *testing.T, r *mcptest.Response) {
				if got := read(t, r); !got.IsError || got.Content[0].Text != "The task was cancelled before the tool ended (by bob)." {
					t.Errorf("got %s", r.Raw)
				}
			}
		},
		"deleted": func(t *testing.T, f *fixture, task *v1alpha1.McpTask) func(*testing.T, *mcptest.Response) {
			key := types.NamespacedName{Namespace: "team", Name: task.Name}
			f.cluster.mu.Lock()
			delete(f.cluster.tasks, key)
			f.cluster.mu.Unlock()
			f.Store.Forget(key)
			return func(t *testing.T, r *mcptest.Response) { failsWith(t, r, -32603, 200, task.Name+" was deleted") }
		},
		"the server ends": func(_ *testing.T, f *fixture, task *v1alpha1.McpTask) func(*testing.T, *mcptest.Response) {
			f.Drain()
			return func(t *testing.T, r *mcptest.Response) {
				failsWith(t, r, wire.CodeUnavailable, 200, "kubectl get mcptask "+task.Name+" -n team")
				if string(r.Error.Data) != `{"taskId":"`+task.Name+`"}` || f.cluster.only(t).Spec.Cancel != nil {
					t.Errorf("the task is not named, or is cancelled: %s", r.Raw)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.offer("tool", waits(forbidden, 0, long))
			answer, _ := start(t, f.alice, "tools/call", map[string]any{"name": "tool"})
			check := end(t, f, f.cluster.only(t))
			check(t, answer())
		})
	}
}

func TestAtTheEndOfTheWait(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("forbidden", waits(forbidden, 0, time.Millisecond))
	f.offer("optional", waits(optional, time.Millisecond, long))
	response := f.alice.Call(t, "tools/call", map[string]any{"name": "forbidden"})
	task := f.cluster.only(t)
	if got := read(t, response); !got.IsError || !strings.Contains(got.Content[0].Text, "kubectl get mcptask "+task.Name+" -n team") || task.Spec.Cancel != nil {
		t.Errorf("got %s for %+v", response.Raw, task.Spec)
	}
	if got := read(t, f.alice.Call(t, "tools/call", map[string]any{"name": "optional"})); got.ResultType != "task" || got.TaskID == "" {
		t.Errorf("no handle at the end of the sync window: %+v", got)
	}
}

func TestAServerThatEndsGivesHandles(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", waits(optional, long, long))
	answer, _ := start(t, f.alice, "tools/call", map[string]any{"name": "tool"})
	task := f.cluster.only(t)
	f.Drain()
	f.Drain()
	if got := read(t, answer()); got.ResultType != "task" || got.TaskID != task.Name || f.cluster.only(t).Spec.Cancel != nil {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Wait(ctx); err != nil {
		t.Error(err)
	}
}

func TestWhoLeavesCancels(t *testing.T) {
	for name, tasks := range map[string]bool{"without tasks": false, "within the sync window": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.offer("tool", waits(optional, long, long))
			client := f.alice
			client.Tasks = tasks
			_, leave := start(t, client, "tools/call", map[string]any{"name": "tool"})
			f.cluster.only(t)
			leave()
			eventually(t, "the task is cancelled", func() bool { return f.cluster.only(t).Spec.Cancel != nil })
			if request := f.cluster.only(t).Spec.Cancel; !strings.Contains(request.Reason, "disconnected") || request.By != "test:alice" {
				t.Errorf("stored is %+v", request)
			}
		})
	}
}

func TestWhoHasAHandleMayLeave(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	f.handle(t, "tool")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("the task is cancelled")
	}
}

func TestProgressIsTold(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", waits(forbidden, 0, long))
	request, err := f.alice.Request(t.Context(), "tools/call", map[string]any{
		"name": "tool", "_meta": map[string]any{"progressToken": json.RawMessage("9007199254740993")}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		return ""
	}
	task := f.cluster.only(t)
	for _, step := range []struct {
		progress []v1alpha1.Progress
		want     string
	}{
		{[]v1alpha1.Progress{{Current: "1", Total: "4", Message: "one"}},
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9007199254740993,"message":"one","progress":1,"total":4}}`},
		{[]v1alpha1.Progress{{Current: "1"}, {Current: "odd"}, {Current: "0.5"}, {Current: "2.5"}},
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9007199254740993,"progress":2.5}}`},
	} {
		for _, p := range step.progress {
			f.cluster.change(t, task.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Progress: &p})
		}
		if got := next(); got != step.want {
			t.Errorf("told is %s\nwant %s", got, step.want)
		}
	}
	f.cluster.change(t, task.Name, completed(`{}`))
	if got := next(); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("after the progress comes %s", got)
	}
}

func TestWaitingCallsAreBounded(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxWaitingCalls = 1 })
	f.offer("forbidden", waits(forbidden, 0, long))
	f.offer("optional", waits(optional, long, long))
	answer, _ := start(t, f.alice, "tools/call", map[string]any{"name": "forbidden"})
	first := f.cluster.only(t)
	failsWith(t, f.alice.Call(t, "tools/call", map[string]any{"name": "forbidden"}), 429, 200, "no task was created")
	if f.cluster.count() != 1 {
		t.Errorf("%d tasks", f.cluster.count())
	}
	if got := read(t, f.alice.Call(t, "tools/call", map[string]any{"name": "optional"})); got.ResultType != "task" {
		t.Errorf("who can take a handle gets %+v", got)
	}
	f.cluster.change(t, first.Name, completed(`{}`))
	read(t, answer())
	eventually(t, "the place is free again", func() bool { return len(f.slots) == 0 })
}
