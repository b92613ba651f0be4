package endpoint

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

func TestTasksResultIsWhatTheCallWouldHaveReturned(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	for stored, want := range map[string]string{
		`{"content":[{"type":"text","text":"done"}],"_meta":{"n":12345678901234567890}}`: `{"content":[{"type":"text","text":"done"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"},"n":12345678901234567890}}`,
		`{"content":[],"isError":true}`:           `{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`,
		`{"content":[],"structuredContent":[1]}`:  `{"content":[{"type":"text","text":"[1]"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`,
		`{"structuredContent":{"a":1}}`:           `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`,
		`{"content":[],"resultType":"something"}`: `{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`,
	} {
		id := asTask(t, s, "tool")
		f.cluster.change(t, id, completed(stored))
		response := s.Call(t, "tasks/result", map[string]any{"taskId": id})
		if response.Error != nil {
			t.Fatal(response.Raw)
		}
		fits(t, "CallToolResult", response.Result)
		if got := string(response.Result); got != strings.ReplaceAll(want, "ID", id) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	id := asTask(t, s, "tool")
	f.cluster.change(t, id, v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Error: &v1alpha1.TaskError{Code: -32600, Message: "no such repository"}})
	response := s.Call(t, "tasks/result", map[string]any{"taskId": id})
	failsWith(t, response, -32600, 200, "no such repository")
	if string(response.ID) != "1" {
		t.Errorf("the error has the id %s", response.ID)
	}
}

func TestTasksResultBlocksAndBeats(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	id := asTask(t, s, "tool")
	stream := s.Open(t, "tasks/result", map[string]any{"taskId": id})
	for range 3 {
		stream.Comment(patience)
	}
	if stream.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("the header is %v", stream.Header)
	}
	f.cluster.change(t, id, completed(`{"content":[],"isError":true}`))
	answer := stream.Next(patience)
	fits(t, "CallToolResult", answer.Result)
	if string(answer.ID) != "1" || !strings.Contains(string(answer.Result), `"isError":true`) || !strings.Contains(string(answer.Result), id) {
		t.Errorf("got %s", answer.Result)
	}
	stream.End(patience)
}

func TestHowTasksResultEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(*fixture, *mcptest.Session, string)
		code  int64
		words string
	}{
		"cancelled": {func(f *fixture, s *mcptest.Session, id string) {
			s.Call(t, "tasks/cancel", map[string]any{"taskId": id})
		}, wire.CodeInternalError, "was cancelled"},
		"deleted": {func(f *fixture, _ *mcptest.Session, id string) {
			key := types.NamespacedName{Namespace: "team", Name: id}
			f.cluster.mu.Lock()
			delete(f.cluster.tasks, key)
			f.cluster.mu.Unlock()
			f.Store.Forget(key)
		}, wire.CodeInternalError, "was deleted"},
		"restarting": {func(f *fixture, _ *mcptest.Session, _ string) { f.Drain() }, wire.CodeUnavailable, "restarting"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.offer("tool", nil)
			s := f.legacySession(t, nil)
			id := asTask(t, s, "tool")
			stream := s.Open(t, "tasks/result", map[string]any{"taskId": id})
			tc.end(f, s, id)
			if answer := stream.Next(patience); answer.Error == nil || answer.Error.Code != tc.code || !strings.Contains(answer.Error.Message, tc.words) {
				t.Errorf("got %+v", answer)
			}
			stream.End(patience)
		})
	}
}

func TestWaitingForResultsIsBounded(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxWaitingCalls = 1 })
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	id := asTask(t, s, "tool")
	stream := s.Open(t, "tasks/result", map[string]any{"taskId": id})
	failsWith(t, s.Call(t, "tasks/result", map[string]any{"taskId": id}), wire.CodeLimitReached, 200, "poll with tasks/get")
	stream.Leave()
	eventually(t, "the place is free again", func() bool { return len(f.slots) == 0 })
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("who left has cancelled the task")
	}
}

func TestTasksResultAsksAndAnyReplicaTakesTheAnswer(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", asksForms)
	other := f.replica(t)
	other.offer("tool", asksForms)
	s := f.legacySession(t, forms)
	id := asTask(t, s, "tool")
	f.cluster.change(t, id, asks(question("a-1"), urlQuestion("u-1")))
	stream := s.Open(t, "tasks/result", map[string]any{"taskId": id})
	first := stream.Next(patience)
	fits(t, "ElicitRequestFormParams", first.Params)
	if first.Method != "elicitation/create" || !strings.Contains(string(first.Params), `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`) {
		t.Fatalf("asked is %s", first.Params)
	}
	f.cluster.change(t, id, asks(question("a-1"), urlQuestion("u-1"), question("b-1"))) // one more, later
	second := stream.Next(patience)
	stream.Comment(patience) // and nothing twice
	there := s.At(other.alice.URL).Open(t, "tasks/result", map[string]any{"taskId": id})
	if again := there.Next(patience); string(again.ID) != string(first.ID) {
		t.Errorf("another replica asks as %s, not as %s", again.ID, first.ID)
	}
	if response := s.At(other.alice.URL).Respond(t, second.ID, accept(`{"amount":2}`), nil); response.Status != 202 {
		t.Fatal(response.Raw)
	}
	if response := s.Respond(t, first.ID, map[string]any{"action": "accept", "content": map[string]any{"amount": 1},
		"_meta": map[string]any{"io.modelcontextprotocol/related-task": map[string]any{"taskId": id}}}, nil); response.Status != 202 {
		t.Fatal(response.Raw)
	}
	if response := s.Respond(t, first.ID, accept(`{"amount":7}`), nil); response.Status != 202 { // a repetition
		t.Fatal(response.Raw)
	}
	stored := map[string]string{}
	for _, answer := range f.cluster.only(t).Spec.InputResponses {
		stored[answer.Key] = string(answer.Response.Raw)
	}
	if len(stored) != 2 || stored["a-1"] != `{"action":"accept","content":{"amount":1}}` || stored["b-1"] != `{"action":"accept","content":{"amount":2}}` {
		t.Errorf("stored is %v", stored)
	}
	f.cluster.change(t, id, completed(`{"content":[]}`))
	for _, waiting := range []*mcptest.Stream{stream, there} {
		for answer := waiting.Next(patience); answer.Result == nil; answer = waiting.Next(patience) {
			if answer.Method != "elicitation/create" {
				t.Fatalf("got %+v", answer)
			}
		}
	}
}

func TestURLQuestionsHaveAnElicitationID(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, map[string]any{"elicitation": map[string]any{"url": map[string]any{}}})
	id := asTask(t, s, "tool")
	f.cluster.change(t, id, asks(urlQuestion("a-1")))
	asked := s.Open(t, "tasks/result", map[string]any{"taskId": id}).Next(patience)
	fits(t, "ElicitRequestURLParams", asked.Params)
}

func TestWhatClientsRespond(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, forms)
	id := asTask(t, s, "tool")
	questionID := json.RawMessage(`"mcptask/` + id + `/a-1"`)
	if response := s.Respond(t, questionID, accept(`{"amount":1}`), nil); response.Status != 202 { // nobody asked
		t.Error(response.Raw)
	}
	f.cluster.change(t, id, asks(question("a-1")))
	failsWith(t, s.Respond(t, questionID, accept(`{"amount":"much"}`), nil), -32602, 400, "amount")
	failsWith(t, s.Respond(t, questionID, map[string]any{"action": "maybe"}, nil), -32602, 400, "action")
	for _, unknown := range []string{`1`, `"x"`, `"mcptask/x/a-1"`, `"mcptask/` + id + `"`, `"mcptask/` + id + `/"`} {
		refusesWithoutID(t, s.Respond(t, json.RawMessage(unknown), accept(`{}`), nil), 400, "no request with this id")
	}
	nobody := *s
	nobody.ID = ""
	refusesWithoutID(t, nobody.Respond(t, questionID, accept(`{"amount":1}`), nil), 400, "missing")
	if len(f.cluster.only(t).Spec.InputResponses) != 0 {
		t.Fatal("something was stored")
	}
	if response := s.Respond(t, questionID, nil, &mcptest.Error{Code: -32601, Message: "cannot"}); response.Status != 202 || response.Raw != "" {
		t.Error(response.Raw)
	}
	if stored := f.cluster.only(t).Spec.InputResponses; len(stored) != 1 || string(stored[0].Response.Raw) != `{"action":"cancel"}` {
		t.Errorf("stored is %+v", stored)
	}
	failsWith(t, f.alice.Call(t, "x", nil, mcptest.Body(`{"jsonrpc":"2.0","id":1,"result":{}}`)), -32600, 400, "only requests and notifications")
}

func TestProgressOfATaskIsToldWithTheTokenOfItsCall(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	response := s.Call(t, "tools/call", map[string]any{"name": "tool", "task": map[string]any{}, "_meta": map[string]any{"progressToken": 7}})
	if response.Error != nil {
		t.Fatal(response.Raw)
	}
	id := f.cluster.only(t).Name
	own := s.Open(t, "tasks/result", map[string]any{"taskId": id})
	stranger := f.legacySession(t, nil).Open(t, "tasks/result", map[string]any{"taskId": id})
	own.Comment(patience)
	stranger.Comment(patience)
	f.cluster.change(t, id, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Progress: &v1alpha1.Progress{Current: "3"}})
	told := own.Next(patience)
	fits(t, "ProgressNotificationParams", told.Params)
	if want := `{"progressToken":7,"progress":3,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}`; string(told.Params) != want {
		t.Errorf("told is %s", told.Params)
	}
	stranger.Comment(patience) // another session does not know the token
}
