package endpoint

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// question asks for a form with an amount, which must be there.
func question(key string) v1alpha1.InputRequest {
	return v1alpha1.InputRequest{Key: key, Method: "elicitation/create", Params: runtime.RawExtension{Raw: []byte(
		`{"mode":"form","message":"How much?","requestedSchema":{"type":"object","properties":{"amount":{"type":"integer"},"mail":{"type":"string","format":"email"}},"required":["amount"]}}`)}}
}

func urlQuestion(key string) v1alpha1.InputRequest {
	return v1alpha1.InputRequest{Key: key, Method: "elicitation/create", Params: runtime.RawExtension{Raw: []byte(
		`{"mode":"url","message":"Sign","url":"https://example.com/sign"}`)}}
}

func asks(questions ...v1alpha1.InputRequest) v1alpha1.McpTaskStatus {
	return v1alpha1.McpTaskStatus{State: v1alpha1.TaskInputRequired, Reason: v1alpha1.ReasonAwaitingInput, InputRequests: questions}
}

func accept(content string) map[string]any {
	return map[string]any{"action": "accept", "content": json.RawMessage(content)}
}

// open are the questions that tasks/get shows, and the state.
func open(t *testing.T, client mcptest.Client, id string) (state string, keys map[string]json.RawMessage, words string) {
	t.Helper()
	response := client.Call(t, "tasks/get", map[string]any{"taskId": id})
	var task struct {
		Status, StatusMessage string
		InputRequests         map[string]json.RawMessage
	}
	if response.Error != nil || json.Unmarshal(response.Result, &task) != nil {
		t.Fatal(response.Raw)
	}
	return task.Status, task.InputRequests, task.StatusMessage
}

func formClient(c mcptest.Client) mcptest.Client {
	c.Elicitation = []string{"form"}
	return c
}

func TestQuestionsAreAnsweredOneByOne(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	alice := formClient(f.alice)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("a-1"), question("b-1")))
	if state, keys, _ := open(t, alice, id); state != "input_required" || len(keys) != 2 {
		t.Fatalf("%s with %v", state, keys)
	}
	update := func(key, content string) *mcptest.Response {
		return alice.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{key: accept(content)}})
	}
	if response := update("b-1", `{"amount":2}`); response.Error != nil {
		t.Fatal(response.Raw)
	}
	if state, keys, _ := open(t, alice, id); state != "input_required" || len(keys) != 1 || keys["a-1"] == nil {
		t.Errorf("after the answer to b-1: %s with %v", state, keys)
	}
	before := f.cluster.writes
	if response := update("b-1", `{"amount":3}`); response.Error != nil {
		t.Errorf("a second answer: %s", response.Raw)
	}
	if f.cluster.writes != before {
		t.Error("a second answer is written")
	}
	if response := update("a-1", `{"amount":1}`); response.Error != nil {
		t.Fatal(response.Raw)
	}
	if state, keys, _ := open(t, alice, id); state != "working" || len(keys) != 0 {
		t.Errorf("after both: %s with %v", state, keys)
	}
	stored := f.cluster.only(t).Spec.InputResponses
	if len(stored) != 2 || stored[0].Key != "b-1" || string(stored[0].Response.Raw) != `{"action":"accept","content":{"amount":2}}` ||
		stored[0].AnsweredBy.Principal != "test:alice" || stored[0].AnsweredBy.Via != "mcp" || stored[0].AnsweredAt == nil {
		t.Errorf("stored is %+v", stored)
	}
	if !strings.Contains(f.log.String(), `"msg":"audit","audit":true,"outcome":"answered","issuer":"test","subject":"alice"`) {
		t.Error("the log does not say who answered")
	}
}

func TestAnswersThatDoNotFitAreRefusedAndNothingIsStored(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	alice := formClient(f.alice)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("a-1"), question("b-1"), urlQuestion("u-1")))
	for name, tc := range map[string]struct{ answer, words string }{
		"wrong type":      {`{"action":"accept","content":{"amount":"1"}}`, "inputResponses/b-1/content/amount"},
		"missing":         {`{"action":"accept","content":{}}`, "amount"},
		"format":          {`{"action":"accept","content":{"amount":1,"mail":"nobody"}}`, "inputResponses/b-1/content/mail"},
		"no content":      {`{"action":"accept"}`, "inputResponses/b-1/content"},
		"content is text": {`{"action":"accept","content":"{}"}`, "inputResponses/b-1/content"},
		"no action":       {`{"content":{"amount":1}}`, "inputResponses/b-1/action"},
		"odd action":      {`{"action":"maybe"}`, "inputResponses/b-1/action"},
		"no object":       {`"yes"`, "inputResponses/b-1"},
		"twice":           {`{"action":"accept","action":"decline"}`, "inputResponses/b-1"},
		"huge":            {`{"action":"accept","content":{"amount":1,"x":"` + strings.Repeat("x", 40<<10) + `"}}`, "longer than"},
		"no such number":  {`{"action":"accept","content":{"amount":1e400}}`, "b-1"},
	} {
		t.Run(name, func(t *testing.T) {
			response := alice.Call(t, "tasks/update", map[string]any{"taskId": id}, mcptest.Body(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":%q,"inputResponses":{"a-1":{"action":"accept","content":{"amount":1}},"b-1":%s},%s}}`, id, tc.answer, tasksMeta)))
			failsWith(t, response, -32602, 400, tc.words)
			if n := len(f.cluster.only(t).Spec.InputResponses); n != 0 {
				t.Errorf("%d answers are stored", n)
			}
		})
	}
	for key, answer := range map[string]any{"a-1": map[string]any{"action": "decline"}, "b-1": map[string]any{"action": "cancel"}, "u-1": map[string]any{"action": "accept"}} {
		if response := alice.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{key: answer}}); response.Error != nil {
			t.Errorf("%s: %s", key, response.Raw)
		}
	}
	if n := len(f.cluster.only(t).Spec.InputResponses); n != 3 {
		t.Errorf("%d answers are stored", n)
	}
}

// tasksMeta declares tasks and forms.
const tasksMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func TestAClientSeesTheQuestionsThatItCanPut(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("form-1"), urlQuestion("url-1")))
	for _, tc := range []struct {
		modes []string
		want  string
	}{{nil, ""}, {[]string{}, "form-1"}, {[]string{"form"}, "form-1"}, {[]string{"url"}, "url-1"}, {[]string{"form", "url"}, "form-1,url-1"}} {
		client := f.alice
		client.Elicitation = tc.modes
		state, keys, words := open(t, client, id)
		got := []string{}
		for _, key := range []string{"form-1", "url-1"} {
			if keys[key] != nil {
				got = append(got, key)
			}
		}
		if state != "input_required" || strings.Join(got, ",") != tc.want {
			t.Errorf("%v: %s with %v", tc.modes, state, got)
		}
		if complete := len(got) == 2; complete == strings.Contains(words, "not shown") {
			t.Errorf("%v: says %q", tc.modes, words)
		}
	}
}

func TestAnAnswerReachesAReplicaThatHasNotHeardOfTheQuestion(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	f.cluster.deaf = true // the watch is behind
	f.cluster.change(t, id, asks(question("a-1")))
	response := formClient(f.alice).Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"a-1": accept(`{"amount":1}`)}})
	if response.Error != nil {
		t.Fatal(response.Raw)
	}
	if n := len(f.cluster.only(t).Spec.InputResponses); n != 1 {
		t.Errorf("%d answers are stored", n)
	}
	if state, keys, _ := open(t, formClient(f.alice), id); state != "working" || len(keys) != 0 {
		t.Errorf("the next tasks/get says %s with %v", state, keys)
	}
}

func TestTheFirstOfManyAnswersStands(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("a-1")))
	other := New(f.Config) // another replica
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	var group sync.WaitGroup
	for i := range 20 {
		client := formClient(f.alice)
		if i%2 == 0 {
			client.URL = server.URL + "/mcp/team"
		}
		group.Go(func() {
			response := client.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"a-1": accept(fmt.Sprintf(`{"amount":%d}`, i))}})
			if response.Error != nil {
				t.Error(response.Raw)
			}
		})
	}
	group.Wait()
	if n := len(f.cluster.only(t).Spec.InputResponses); n != 1 {
		t.Errorf("%d answers are stored", n)
	}
}

func TestAnAnswerAfterTheEndChangesNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	ended := completed(`{"content":[]}`)
	ended.InputRequests = []v1alpha1.InputRequest{question("a-1")}
	f.cluster.change(t, id, ended)
	before := f.cluster.writes
	response := formClient(f.alice).Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"a-1": accept(`{"amount":1}`)}})
	if response.Error != nil || f.cluster.writes != before {
		t.Errorf("%d writes, %s", f.cluster.writes-before, response.Raw)
	}
}

func TestATaskThatWasAskedToEndTakesNoAnswer(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	alice := formClient(f.alice)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("a-1")))
	if response := alice.Call(t, "tasks/cancel", map[string]any{"taskId": id}); response.Error != nil {
		t.Fatal(response.Raw)
	}
	if state, keys, words := open(t, alice, id); state != "working" || len(keys) != 0 || !strings.Contains(words, "asked to end") {
		t.Errorf("after the cancellation: %s with %v, %q", state, keys, words)
	}
	response := alice.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"a-1": accept(`{"amount":1}`)}})
	if response.Error != nil || len(f.cluster.only(t).Spec.InputResponses) != 0 {
		t.Errorf("the answer is stored: %s", response.Raw)
	}
}

func TestAnswersLeaveRoomInTheTask(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	alice := formClient(f.alice)
	id := f.handle(t, "tool")
	var questions []v1alpha1.InputRequest
	for i := range 12 {
		questions = append(questions, question(fmt.Sprintf("k-%d", i)))
	}
	f.cluster.change(t, id, asks(questions...))
	long := accept(`{"amount":1,"note":"` + strings.Repeat("x", 30<<10) + `"}`)
	refused := 0
	for i := range questions {
		response := alice.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{fmt.Sprintf("k-%d", i): long}})
		if response.Error != nil {
			failsWith(t, response, -32602, 400, "all answers of the task would be")
			refused++
		}
	}
	if refused != 4 { // 8 of 30 KiB fit into 256
		t.Errorf("%d answers are refused", refused)
	}
}

func TestWhatDoesNotBelongInAnAnswerIsLeftOut(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	alice := formClient(f.alice)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("a-1"), question("b-1"), urlQuestion("u-1")))
	for _, answer := range []string{`{"a":1}`, `[1]`, `null`} {
		failsWith(t, alice.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"a-1": accept(`{"amount":1,"x":` + answer + `}`)}}), -32602, 400, "inputResponses/a-1/content/x")
	}
	response := alice.Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{
		"a-1": json.RawMessage(`{"action":"accept","content":{"amount":1},"_meta":{}}`), "b-1": json.RawMessage(`{"action":"decline","content":{"amount":1}}`),
		"u-1": json.RawMessage(`{"action":"accept","content":{"amount":1}}`)}})
	if response.Error != nil {
		t.Fatal(response.Raw)
	}
	got := map[string]string{}
	for _, r := range f.cluster.only(t).Spec.InputResponses {
		got[r.Key] = string(r.Response.Raw)
	}
	if got["a-1"] != `{"action":"accept","content":{"amount":1}}` || got["b-1"] != `{"action":"decline"}` || got["u-1"] != `{"action":"accept"}` {
		t.Errorf("stored is %v", got)
	}
}

func TestAnAnswerForWhichOthersLeftNoRoomIsNotAcknowledged(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	f.cluster.change(t, id, asks(question("a-1")))
	f.cluster.deaf = true // what another replica stores now, this one does not see
	stored := f.cluster.only(t)
	full := runtime.RawExtension{Raw: []byte(`{"action":"accept","content":{"x":"` + strings.Repeat("x", maxAnswersBytes) + `"}}`)}
	stored.Spec.InputResponses = []v1alpha1.InputResponse{{Key: "other-1", Response: full}}
	f.cluster.mu.Lock()
	f.cluster.put(stored)
	f.cluster.mu.Unlock()
	response := formClient(f.alice).Call(t, "tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"a-1": accept(`{"amount":1}`)}})
	failsWith(t, response, -32602, 400, "all answers of the task would be")
}
