package endpoint

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

func asksForms(spec *v1alpha1.McpToolSpec) {
	spec.Runtime = &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm}}
}

func TestATaskIsAskedForAndItsLifeIsCapped(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("bounded", func(s *v1alpha1.McpToolSpec) {
		s.TTL = &v1alpha1.TTLPolicy{Default: &metav1.Duration{Duration: time.Hour}, Max: &metav1.Duration{Duration: 24 * time.Hour}}
	})
	f.offer("free", nil)
	s := f.legacySession(t, nil)
	for _, tc := range []struct {
		tool string
		task string
		want any
	}{
		{"bounded", `{}`, int64(3_600_000)},
		{"bounded", `{"ttl":60000}`, int64(60_000)},
		{"bounded", `{"ttl":315360000000}`, int64(86_400_000)},
		{"bounded", `{"ttl":1e300}`, int64(86_400_000)},
		{"bounded", `{"ttl":null}`, int64(3_600_000)},
		{"free", `{}`, nil},
		{"free", `{"ttl":60000.0}`, int64(60_000)},
		{"free", `{"ttl":1e300}`, int64(longestTTL / time.Millisecond)},
	} {
		response := s.Call(t, "tools/call", map[string]any{"name": tc.tool, "task": json.RawMessage(tc.task)})
		if response.Error != nil || response.Status != 200 {
			t.Fatalf("%s: %s", tc.task, response.Raw)
		}
		fits(t, "CreateTaskResult", response.Result)
		var result struct {
			Task json.RawMessage
			Meta map[string]struct{ TaskID string } `json:"_meta"`
		}
		if err := json.Unmarshal(response.Result, &result); err != nil {
			t.Fatal(err)
		}
		task := taskOf(t, result.Task)
		var got any
		if task.TTL != nil {
			got = *task.TTL
		}
		if got != tc.want || task.Status != "working" || task.PollInterval != 2000 || result.Meta["io.modelcontextprotocol/related-task"].TaskID != task.TaskID {
			t.Errorf("%s with %s: %s", tc.tool, tc.task, response.Raw)
		}
		if again := legacyGet(t, s, task.TaskID); again.TTL != nil && *again.TTL != got {
			t.Errorf("tasks/get says %d, the call said %v", *again.TTL, got)
		}
	}
	made := f.cluster.count()
	for _, bad := range []string{`[]`, `7`, `{"ttl":0}`, `{"ttl":-1}`, `{"ttl":1.5}`, `{"ttl":"60000"}`, `{"ttl":0.001}`} {
		failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "free", "task": json.RawMessage(bad)}), -32602, 200, "params.task")
	}
	if f.cluster.count() != made {
		t.Error("a task was made")
	}
}

func TestToolsThatMustAndMustNotBeTasks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("never", waits(forbidden, 0, long))
	f.offer("always", waits(v1alpha1.TaskSupportRequired, 0, long))
	s := f.legacySession(t, nil)
	failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "never", "task": map[string]any{}}), -32601, 200, "cannot be called as a task")
	failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "always"}), -32601, 200, "only be called as a task")
	failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "none"}), -32602, 200, "Unknown tool: none")
	old := f.alice.Initialize(t, "2025-06-18", nil)
	failsWith(t, old.Call(t, "tools/call", map[string]any{"name": "always", "task": map[string]any{}}), -32601, 200, "2025-11-25")
	if f.cluster.count() != 0 {
		t.Error("a task was made")
	}
	asTask(t, s, "always")
}

func TestRevisionsWithoutTasksIgnoreThatOneIsAskedFor(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-03-26"} {
		f := newFixture(t, nil)
		f.offer("tool", waits(forbidden, 0, long))
		stream := f.alice.Initialize(t, version, nil).Open(t, "tools/call", map[string]any{"name": "tool", "task": map[string]any{"ttl": 1}})
		task := f.cluster.only(t)
		f.cluster.change(t, task.Name, completed(`{"content":[{"type":"text","text":"done"}],"structuredContent":[1]}`))
		answer := stream.Next(patience)
		fits(t, "CallToolResult", answer.Result)
		if answer.Error != nil || !strings.Contains(string(answer.Result), `"done"`) || strings.Contains(string(answer.Result), "related-task") {
			t.Errorf("%s: %s", version, answer.Result)
		}
		stream.End(patience)
	}
}

func TestALegacyCallThatWaitsIsToldOfProgress(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", waits(optional, 0, long))
	s := f.legacySession(t, nil)
	stream := s.Open(t, "tools/call", map[string]any{"name": "tool", "_meta": map[string]any{"progressToken": "p"}})
	stream.Comment(patience)
	task := f.cluster.only(t)
	for _, step := range []struct{ current, want string }{
		{"1", `{"progressToken":"p","progress":1,"total":4,"message":"m"}`}, {"0.5", ""}, {"NaN", ""}, {"2.5", `{"progressToken":"p","progress":2.5,"total":4,"message":"m"}`},
	} {
		f.cluster.change(t, task.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Progress: &v1alpha1.Progress{Current: step.current, Total: "4", Message: "m"}})
		if step.want == "" {
			continue
		}
		told := stream.Next(patience)
		if string(told.Params) != step.want || told.Method != "notifications/progress" {
			t.Errorf("told is %s", told.Params)
		}
		fits(t, "ProgressNotificationParams", told.Params)
	}
	f.cluster.change(t, task.Name, completed(`{"content":[]}`))
	if answer := stream.Next(patience); string(answer.Result) != `{"content":[]}` {
		t.Errorf("got %s", answer.Result)
	}
}

func TestALegacyCallerThatLeavesCancelsNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", waits(optional, 0, long))
	stream := f.legacySession(t, nil).Open(t, "tools/call", map[string]any{"name": "tool"})
	stream.Comment(patience)
	task := f.cluster.only(t)
	stream.Leave()
	eventually(t, "the call is over", func() bool { return len(f.slots) == 0 })
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Errorf("task %s is cancelled", task.Name)
	}
}

func TestHowALegacyWaitEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		status v1alpha1.McpTaskStatus
		drain  bool
		wait   time.Duration
		code   int64
		words  string
	}{
		"failed":     {status: v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Error: &v1alpha1.TaskError{Code: -32600, Message: "node lost"}}, wait: long, code: -32600, words: "node lost"},
		"cancelled":  {status: v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled}, wait: long, words: "was cancelled"},
		"time up":    {wait: time.Millisecond, words: "has not ended within 1ms"},
		"restarting": {drain: true, wait: long, code: wire.CodeUnavailable, words: "restarting"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.offer("tool", waits(optional, 0, tc.wait))
			stream := f.legacySession(t, nil).Open(t, "tools/call", map[string]any{"name": "tool"})
			task := f.cluster.only(t)
			switch {
			case tc.drain:
				f.Drain()
			case tc.status.State != "":
				f.cluster.change(t, task.Name, tc.status)
			}
			answer := stream.Next(patience)
			switch {
			case string(answer.ID) != "1":
				t.Errorf("the id is %s", answer.ID)
			case tc.code != 0 && (answer.Error == nil || answer.Error.Code != tc.code || !strings.Contains(answer.Error.Message, tc.words)):
				t.Errorf("got %+v", answer.Error)
			case tc.code == 0:
				fits(t, "CallToolResult", answer.Result)
				if !strings.Contains(string(answer.Result), `"isError":true`) || !strings.Contains(string(answer.Result), tc.words) {
					t.Errorf("got %s", answer.Result)
				}
			}
			stream.End(patience)
		})
	}
}

func TestAPlainLegacyCallerIsAskedAndAnswersAtAnotherReplica(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", asksForms)
	other := f.replica(t)
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		s := f.alice.Initialize(t, version, forms)
		stream := s.Open(t, "tools/call", map[string]any{"name": "tool"})
		stream.Comment(patience)
		task := f.cluster.unended(t)
		f.cluster.change(t, task.Name, asks(question("a-1"), urlQuestion("b-1")))
		asked := stream.Next(patience)
		if asked.Method != "elicitation/create" || strings.Contains(string(asked.Params), "related-task") {
			t.Fatalf("asked is %+v", asked)
		}
		fits(t, "ElicitRequestFormParams", asked.Params)
		stream.Comment(patience) // the other question is not for this client
		if response := s.At(other.alice.URL).Respond(t, asked.ID, accept(`{"amount":3}`), nil); response.Status != 202 || response.Raw != "" {
			t.Fatalf("HTTP %d with %s", response.Status, response.Raw)
		}
		stored := f.cluster.unended(t).Spec.InputResponses
		if len(stored) != 1 || stored[0].Key != "a-1" || string(stored[0].Response.Raw) != `{"action":"accept","content":{"amount":3}}` || stored[0].AnsweredBy.Principal != "test:alice" {
			t.Errorf("stored is %+v", stored)
		}
		f.cluster.change(t, task.Name, completed(`{"content":[]}`))
		if answer := stream.Next(patience); answer.Error != nil {
			t.Errorf("got %+v", answer.Error)
		}
	}
}

func TestWhoCannotBeAskedMayNotCallAToolThatAsks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", asksForms)
	for version, capabilities := range map[string]map[string]any{"2025-11-25": {"elicitation": map[string]any{"url": map[string]any{}}}, "2025-06-18": nil, "2025-03-26": forms} {
		s := f.alice.Initialize(t, version, capabilities)
		for _, params := range []map[string]any{{"name": "tool"}, {"name": "tool", "task": map[string]any{}}} {
			failsWith(t, s.Call(t, "tools/call", params), -32602, 200, "elicitation.form")
		}
	}
	if f.cluster.count() != 0 {
		t.Error("a task was made")
	}
}

func TestWhatAToolAsksBeforehandIsAnArgument(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(s *v1alpha1.McpToolSpec) {
		s.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"who":{"type":"object"}}}`)}
		s.Preflight = []v1alpha1.PreflightQuestion{{Name: "who", Message: "Who are you?", Schema: runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{}}`)}}}
	})
	s := f.legacySession(t, forms)
	failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "tool", "task": map[string]any{}}), -32602, 200, "params.arguments.who")
	response := s.Call(t, "tools/call", map[string]any{"name": "tool", "task": map[string]any{}, "arguments": map[string]any{"who": map[string]any{"name": "Ann"}}})
	if response.Error != nil || f.cluster.count() != 1 {
		t.Error(response.Raw)
	}
	failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": map[string]any{"who": 7}}), -32602, 200, "arguments/who")
	failsWith(t, s.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": []any{}}), -32602, 200, "params.arguments")
}

func TestTriesOfOneLegacyCallAreOneTask(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	for range 2 {
		response := s.Call(t, "tools/call", map[string]any{"name": "tool", "task": map[string]any{}, "_meta": map[string]any{"mcptask.dev/idempotencyKey": "k"}})
		if response.Error != nil {
			t.Fatal(response.Raw)
		}
	}
	if task := f.cluster.only(t); task.Annotations[v1alpha1.AnnotationSession] == "" || task.Annotations[v1alpha1.AnnotationArgumentsDigest] == "" {
		t.Errorf("annotations are %v", task.Annotations)
	}
}

// unended is the task that has not ended.
func (c *cluster) unended(t testing.TB) *v1alpha1.McpTask {
	t.Helper()
	var found *v1alpha1.McpTask
	eventually(t, "there is a task that has not ended", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, task := range c.tasks {
			if !task.Status.State.Terminal() {
				found = task.DeepCopy()
			}
		}
		return found != nil
	})
	return found
}
