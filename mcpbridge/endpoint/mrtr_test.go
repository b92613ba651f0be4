package endpoint

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// roundTrip reads an InputRequiredResult.
func roundTrip(t *testing.T, response *mcptest.Response) (questions map[string]json.RawMessage, state string) {
	t.Helper()
	var result struct {
		ResultType    string
		InputRequests map[string]json.RawMessage
		RequestState  string
	}
	if response.Error != nil || json.Unmarshal(response.Result, &result) != nil || result.ResultType != "input_required" || result.RequestState == "" {
		t.Fatalf("no questions but %s", response.Raw)
	}
	return result.InputRequests, result.RequestState
}

func resultType(t *testing.T, response *mcptest.Response) string {
	t.Helper()
	var result struct{ ResultType string }
	if response.Error != nil || json.Unmarshal(response.Result, &result) != nil {
		t.Fatal(response.Raw)
	}
	return result.ResultType
}

// preflightTool asks for a name and for a colour before there is a task.
func preflightTool(spec *v1alpha1.McpToolSpec) {
	form := func(property string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"` + property + `":{"type":"string"}},"required":["` + property + `"]}`)}
	}
	spec.Preflight = []v1alpha1.PreflightQuestion{
		{Name: "who", Message: "Who?", Schema: form("name")}, {Name: "how", Message: "How?", Schema: form("colour")},
	}
	spec.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"n":{"type":"integer"},"who":{"type":"object"},"how":{"type":"object"}}}`)}
}

func TestQuestionsBeforeThereIsATask(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", preflightTool)
	alice := formClient(f.alice)
	call := func(extra map[string]any) *mcptest.Response {
		params := map[string]any{"name": "tool", "arguments": map[string]any{"n": 1}}
		for name, value := range extra {
			params[name] = value
		}
		return alice.Call(t, "tools/call", params)
	}
	questions, state := roundTrip(t, call(nil))
	if len(questions) != 2 || !sameJSONText(questions["who"], `{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`) {
		t.Errorf("asked is %s", questions)
	}
	questions, state = roundTrip(t, call(map[string]any{"requestState": state, "inputResponses": map[string]any{"how": accept(`{"colour":"red"}`), "none": 1}}))
	if len(questions) != 1 || questions["who"] == nil {
		t.Errorf("left is %s", questions)
	}
	failsWith(t, call(map[string]any{"requestState": state, "inputResponses": map[string]any{"who": accept(`{"name":3}`)}}), -32602, 400, "inputResponses/who/content/name")
	if f.cluster.count() != 0 {
		t.Fatal("there is a task before the last answer")
	}
	last := call(map[string]any{"requestState": state, "inputResponses": map[string]any{"who": accept(`{"name":"Alice"}`)}})
	if kind := resultType(t, last); kind != "task" {
		t.Errorf("got %s", last.Raw)
	}
	if arguments := string(f.cluster.only(t).Spec.Arguments.Raw); arguments != `{"how":{"colour":"red"},"n":1,"who":{"name":"Alice"}}` {
		t.Errorf("the arguments are %s", arguments)
	}
}

func TestNobodyIsAskedInVain(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", preflightTool)
	alice := formClient(f.alice)
	failsWith(t, f.alice.Call(t, "tools/call", map[string]any{"name": "tool"}), -32021, 400, "elicitation.form")
	failsWith(t, alice.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": map[string]any{"n": "x"}}), -32602, 400, "/n")
	given := map[string]any{"who": map[string]any{"name": "a"}, "how": map[string]any{"colour": "b"}}
	if kind := resultType(t, f.alice.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": given})); kind != "task" {
		t.Errorf("with all answers among the arguments: %s", kind)
	}
	_, state := roundTrip(t, alice.Call(t, "tools/call", map[string]any{"name": "tool"}))
	declined := alice.Call(t, "tools/call", map[string]any{"name": "tool", "requestState": state, "inputResponses": map[string]any{"who": map[string]any{"action": "decline"}}})
	if !strings.Contains(declined.Raw, `"isError":true`) || !strings.Contains(declined.Raw, "answered with decline") {
		t.Errorf("declined: %s", declined.Raw)
	}
	if n := f.cluster.count(); n != 1 {
		t.Errorf("there are %d tasks", n)
	}
}

// otherLetter is a letter of base64 that is not the given one.
func otherLetter(letter string) string {
	if letter == "A" {
		return "B"
	}
	return "A"
}

func TestARequestStateIsGoodForOneCallOfOneCaller(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", preflightTool)
	f.offer("other", preflightTool)
	alice := formClient(f.alice)
	bob := alice
	bob.Token = "bob"
	_, state := roundTrip(t, alice.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": map[string]any{"n": 1}}))
	all := map[string]any{"who": accept(`{"name":"a"}`), "how": accept(`{"colour":"b"}`)}
	for name, tc := range map[string]struct {
		client      mcptest.Client
		tool, words string
		arguments   map[string]any
		state       any
	}{
		"another caller":    {bob, "tool", "not made by this server", map[string]any{"n": 1}, state},
		"another tool":      {alice, "other", "another tool", map[string]any{"n": 1}, state},
		"other arguments":   {alice, "tool", "other arguments", map[string]any{"n": 2}, state},
		"changed":           {alice, "tool", "not made by this server", map[string]any{"n": 1}, otherLetter(state[:1]) + state[1:]},
		"no text":           {alice, "tool", "must be a string", map[string]any{"n": 1}, 7},
		"of another server": {alice, "tool", "not made by this server", map[string]any{"n": 1}, "eyJ4IjoxfQ"},
	} {
		t.Run(name, func(t *testing.T) {
			failsWith(t, tc.client.Call(t, "tools/call", map[string]any{"name": tc.tool, "arguments": tc.arguments, "requestState": tc.state, "inputResponses": all}), -32602, 400, tc.words)
		})
	}
	if f.cluster.count() != 0 {
		t.Error("there is a task")
	}
	if !strings.Contains(f.log.String(), `"why":"requestState of another caller","issuer":"test","subject":"bob"`) {
		t.Error("the log does not tell of bob")
	}
}

func TestACallerWithoutTasksIsAskedWhatTheJobAsks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(spec *v1alpha1.McpToolSpec) {
		waits(v1alpha1.TaskSupportOptional, 0, patience)(spec)
		spec.Runtime = &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm}}
	})
	plain := formClient(f.alice)
	plain.Tasks = false
	params := map[string]any{"name": "tool", "arguments": map[string]any{}}
	first, _ := start(t, plain, "tools/call", params)
	id := f.cluster.only(t).Name
	f.cluster.change(t, id, asks(question("a-1")))
	questions, state := roundTrip(t, first())
	if len(questions) != 1 || questions["a-1"] == nil {
		t.Errorf("asked is %s", questions)
	}
	bob := plain
	bob.Token = "bob"
	params["requestState"] = state
	params["inputResponses"] = map[string]any{"a-1": accept(`{"amount":"x"}`)}
	wrong := plain.Call(t, "tools/call", params)
	if wrong.Error == nil || wrong.Error.Code != -32602 || !strings.Contains(wrong.Error.Message, "inputResponses/a-1/content/amount") {
		t.Errorf("a wrong answer: %s", wrong.Raw)
	}
	params["inputResponses"] = map[string]any{"a-1": accept(`{"amount":1}`)}
	stranger := bob.Call(t, "tools/call", params)
	if stranger.Error == nil || stranger.Error.Code != -32602 {
		t.Errorf("a stranger with the state: %s", stranger.Raw)
	}
	second, _ := start(t, plain, "tools/call", params)
	eventually(t, "the answer is stored", func() bool { return len(f.cluster.only(t).Spec.InputResponses) == 1 })
	f.cluster.change(t, id, completed(`{"content":[{"type":"text","text":"paid"}]}`))
	if response := second(); !strings.Contains(response.Raw, `"text":"paid"`) {
		t.Errorf("got %s", response.Raw)
	}
	if f.cluster.count() != 1 {
		t.Error("there is a second task")
	}
}

func TestAToolThatMayAskRefusesWhoCannotAnswer(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(spec *v1alpha1.McpToolSpec) {
		spec.Runtime = &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm, v1alpha1.AskModeURL}}
	})
	response := formClient(f.alice).Call(t, "tools/call", map[string]any{"name": "tool"})
	failsWith(t, response, -32021, 400, "elicitation.url")
	if data := string(response.Error.Data); data != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
		t.Errorf("data is %s", data)
	}
	if f.cluster.count() != 0 {
		t.Error("there is a task")
	}
}

func TestACallWithinItsWindowBecomesAHandleWhenTheJobAsks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", waits(v1alpha1.TaskSupportOptional, time.Minute, time.Minute))
	answer, _ := start(t, formClient(f.alice), "tools/call", map[string]any{"name": "tool"})
	f.cluster.change(t, f.cluster.only(t).Name, asks(question("a-1")))
	if response := answer(); !strings.Contains(response.Raw, `"status":"input_required"`) || resultType(t, response) != "task" {
		t.Errorf("got %s", response.Raw)
	}
}

// sameJSONText compares two JSON values.
func sameJSONText(got json.RawMessage, want string) bool {
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && equal(a, b)
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func TestAGivenAnswerMustFitItsQuestion(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", preflightTool)
	given := map[string]any{"who": map[string]any{"name": 3}, "how": map[string]any{"colour": "b"}}
	failsWith(t, f.alice.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": given}), -32602, 400, "arguments/who/name")
}

func TestAStateMakesOneTask(t *testing.T) {
	f := newFixture(t, nil)
	f.cluster.strictly()
	f.offer("tool", preflightTool)
	alice := formClient(f.alice)
	_, state := roundTrip(t, alice.Call(t, "tools/call", map[string]any{"name": "tool"}))
	answered := func(name string) map[string]any {
		return map[string]any{"name": "tool", "requestState": state, "inputResponses": map[string]any{"who": accept(`{"name":"` + name + `"}`), "how": accept(`{"colour":"b"}`)}}
	}
	first := handleOf(t, alice.Call(t, "tools/call", answered("a")))
	if again := handleOf(t, alice.Call(t, "tools/call", answered("a"))); again != first {
		t.Errorf("the same try again makes %s", again)
	}
	failsWith(t, alice.Call(t, "tools/call", answered("b")), -32602, 400, "params.requestState: was used before")
	if n := f.cluster.count(); n != 1 {
		t.Errorf("there are %d tasks", n)
	}
}

func TestATaskWhoseCallerHoldsNothingDoesNotWaitForEver(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(spec *v1alpha1.McpToolSpec) {
		waits(v1alpha1.TaskSupportOptional, 0, patience)(spec)
		spec.Runtime = &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm}}
	})
	plain := formClient(f.alice)
	plain.Tasks = false
	answer, _ := start(t, plain, "tools/call", map[string]any{"name": "tool"})
	task := f.cluster.only(t)
	if task.Spec.TTL == nil || task.Spec.TTL.Duration != stateLife {
		t.Errorf("its ttl is %v", task.Spec.TTL)
	}
	f.cluster.change(t, task.Name, asks(question("a-1")))
	roundTrip(t, answer())
}
