package endpoint

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

func TestAStrangerLearnsNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	bob := f.alice
	bob.Token = "bob"
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		stranger := bob.Call(t, method, map[string]any{"taskId": known, "inputResponses": map[string]any{}})
		nobody := f.alice.Call(t, method, map[string]any{"taskId": v1alpha1.NewTaskID(), "inputResponses": map[string]any{}})
		failsWith(t, stranger, -32602, 400, "Unknown task")
		if stranger.Raw != nobody.Raw || stranger.Status != nobody.Status {
			t.Errorf("%s tells a stranger %s and says %s of a task that never was", method, stranger.Raw, nobody.Raw)
		}
		for name := range stranger.Header {
			if name != "Date" && stranger.Header.Get(name) != nobody.Header.Get(name) {
				t.Errorf("%s: the header %s differs", method, name)
			}
		}
		if log := f.log.String(); !strings.Contains(log, `"issuer":"test","subject":"bob","method":"`+method+`","namespace":"team","task":"`+known+`"`) {
			t.Errorf("the log does not say who tried %s on what: %s", method, log)
		}
	}
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("a stranger cancelled the task")
	}
}

func TestAnAnswerThatNobodyAskedForIsAcknowledgedAndIgnored(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	before := f.cluster.reads + f.cluster.writes
	response := f.alice.Call(t, "tasks/update", map[string]any{"taskId": known, "inputResponses": map[string]any{"none": map[string]any{"action": "accept"}}})
	if response.Error != nil || !strings.Contains(response.Raw, `"resultType":"complete"`) {
		t.Errorf("got %s", response.Raw)
	}
	if after := f.cluster.reads + f.cluster.writes; after > before+1 { // one look whether this replica is behind
		t.Errorf("it cost %d requests", after-before)
	}
	for _, responses := range []any{nil, []any{}, "x"} {
		failsWith(t, f.alice.Call(t, "tasks/update", map[string]any{"taskId": known, "inputResponses": responses}), -32602, 400, "params.inputResponses must be an object")
	}
}

func TestPollsCostNoRequest(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	f.cluster.change(t, known, completed(`{"content":[]}`))
	before := f.cluster.reads + f.cluster.writes
	for range 50 {
		if response := f.alice.Call(t, "tasks/get", map[string]any{"taskId": known}); response.Error != nil {
			t.Fatal(response.Raw)
		}
	}
	if after := f.cluster.reads + f.cluster.writes; after != before {
		t.Errorf("50 polls cost %d requests", after-before)
	}
}

func TestIDsComeBackAsTheyWereSent(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	f.offer("waits", waits(v1alpha1.TaskSupportForbidden, 0, 1))
	known := f.handle(t, "tool")
	for _, id := range []string{`1`, `"a"`, `9007199254740993`, `-123456789012345678901234567890`, `"\u00e9\"x"`} {
		for method, params := range map[string]map[string]any{
			"tasks/get": {"taskId": known}, "tools/list": nil, "tools/call": {"name": "tool"}, "server/discover": nil,
			"tasks/cancel": {"taskId": "none"},
		} {
			request, err := f.alice.Request(t.Context(), method, params)
			if err != nil {
				t.Fatal(err)
			}
			var sent map[string]json.RawMessage
			if err := json.NewDecoder(request.Body).Decode(&sent); err != nil {
				t.Fatal(err)
			}
			sent["id"] = json.RawMessage(id)
			text, err := json.Marshal(sent)
			if err != nil {
				t.Fatal(err)
			}
			response := f.alice.Call(t, method, params, mcptest.Body(string(text)))
			if !sameJSON(response.ID, id) {
				t.Errorf("%s: %s came back as %s", method, id, response.ID)
			}
		}
		waiting := f.alice.Call(t, "tools/call", map[string]any{"name": "waits"}, mcptest.Body(
			`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"waits",`+someMeta+`}}`))
		if !sameJSON(waiting.ID, id) || waiting.Error != nil {
			t.Errorf("in a stream %s came back as %s: %s", id, waiting.ID, waiting.Raw)
		}
	}
}

// sameJSON compares an id that may have been written anew: numbers by their digits, strings by their value.
func sameJSON(got json.RawMessage, want string) bool {
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		return false
	}
	if _, isText := b.(string); isText {
		return a == b
	}
	return string(got) == want
}

func TestCancelIsOneWrite(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	f.cluster.deaf = true // the watch shows nothing: the replica must know what it wrote itself
	known := f.handle(t, "tool")
	writes := f.cluster.writes
	for range 3 {
		response := f.alice.Call(t, "tasks/cancel", map[string]any{"taskId": known})
		if want := `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcptask-bridge","version":"test"}}}`; string(response.Result) != want {
			t.Errorf("got  %s\nwant %s", response.Raw, want)
		}
	}
	if f.cluster.writes != writes+1 {
		t.Errorf("%d writes", f.cluster.writes-writes)
	}
	request := f.cluster.only(t).Spec.Cancel
	if request == nil || !request.Requested || request.By != "test:alice" || request.At == nil || request.Reason == "" {
		t.Errorf("stored is %+v", request)
	}
}

func TestAFinishedTaskIsNotCancelled(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	f.cluster.change(t, known, completed(`{}`))
	if response := f.alice.Call(t, "tasks/cancel", map[string]any{"taskId": known}); response.Error != nil {
		t.Error(response.Raw)
	}
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("a write was made")
	}
}

// A handle that another replica gave resolves here although the watch has not shown it yet.
func TestAnotherReplicasHandle(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	f.cluster.deaf = true
	id := v1alpha1.NewTaskID()
	task := &v1alpha1.McpTask{Spec: v1alpha1.McpTaskSpec{ToolName: "tool", Owner: &v1alpha1.Identity{Issuer: "test", Subject: "alice"}}}
	task.Namespace, task.Name = "team", id
	f.cluster.mu.Lock()
	f.cluster.put(task)
	f.cluster.mu.Unlock()
	for range 5 {
		if response := f.alice.Call(t, "tasks/get", map[string]any{"taskId": id}); response.Error != nil {
			t.Fatal(response.Raw)
		}
	}
	if f.cluster.reads != 1 {
		t.Errorf("%d live reads", f.cluster.reads)
	}
	failsWith(t, f.alice.Call(t, "tasks/get", map[string]any{"taskId": "nonsense"}), -32602, 400, "Unknown task")
	if f.cluster.reads != 1 {
		t.Error("an id that no task can have was looked up")
	}
	limited := 0
	for range 100 {
		if response := f.alice.Call(t, "tasks/get", map[string]any{"taskId": v1alpha1.NewTaskID()}); response.Status == 429 {
			failsWith(t, response, 429, 429, "too many")
			limited++
		}
	}
	if limited == 0 || f.cluster.reads > 60 {
		t.Errorf("a flood made %d live reads; %d were refused", f.cluster.reads, limited)
	}
}
