package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

var (
	created = time.Date(2026, 7, 28, 12, 0, 0, 0, time.FixedZone("CEST", 7200))
	updated = metav1.NewMicroTime(created.Add(1500 * time.Millisecond))
	server  = ServerInfo{Name: "s", Version: "1"}
)

func newTask(change func(*v1alpha1.McpTask)) *v1alpha1.McpTask {
	task := &v1alpha1.McpTask{}
	task.Name, task.CreationTimestamp = "abc", metav1.NewTime(created)
	if change != nil {
		change(task)
	}
	return task
}

func raw(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }

const (
	head = `{"resultType":"complete","taskId":"abc",`
	at   = `"createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttlMs":null,"pollIntervalMs":2000`
	tail = `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`
)

func TestEachStateIsShownAsTheProtocolWants(t *testing.T) {
	for name, tc := range map[string]struct {
		task *v1alpha1.McpTask
		tool Tool
		want string
	}{
		"new": {newTask(nil), Tool{},
			head + `"status":"working","statusMessage":"Accepted; waiting for the controller to start the work.",` + at + tail},
		"working": {newTask(func(t *v1alpha1.McpTask) {
			t.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: "runs", LastUpdatedAt: &updated}
			t.Spec.TTL = &metav1.Duration{Duration: time.Hour}
		}), Tool{PollInterval: 250 * time.Millisecond},
			head + `"status":"working","statusMessage":"runs","createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:01.5Z","ttlMs":3600000,"pollIntervalMs":250` + tail},
		"an answer counts before the controller has seen it": {newTask(func(t *v1alpha1.McpTask) {
			t.Status.State = v1alpha1.TaskInputRequired
			t.Status.InputRequests = []v1alpha1.InputRequest{
				{Key: "a", Method: "elicitation/create", Params: *raw(`{"mode":"form"}`)}, {Key: "b", Method: "elicitation/create", Params: *raw(`{}`)}}
			t.Spec.InputResponses = []v1alpha1.InputResponse{{Key: "b"}}
		}), Tool{}, head + `"status":"input_required",` + at + `,"inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form"}}}` + tail},
		"no question left": {newTask(func(t *v1alpha1.McpTask) { t.Status.State = v1alpha1.TaskInputRequired }), Tool{},
			head + `"status":"working","statusMessage":"The answer is stored and on its way to the tool.",` + at + tail},
		"completed, kept longer than its ttl": {newTask(func(t *v1alpha1.McpTask) {
			expires := metav1.NewTime(created.Add(90 * time.Second))
			t.Spec.TTL = &metav1.Duration{Duration: time.Minute}
			t.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, ExpiresAt: &expires, Result: &v1alpha1.TaskResult{Inline: raw(`{"isError":true}`)}}
		}), Tool{}, head + `"status":"completed","createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttlMs":90000,"pollIntervalMs":2000,` +
			`"result":{"resultType":"complete","content":[],"isError":true}` + tail},
		"failed": {newTask(func(t *v1alpha1.McpTask) {
			t.Status.State = v1alpha1.TaskFailed
			t.Status.Error = &v1alpha1.TaskError{Code: -32603, Message: "the node is gone", Data: raw(`{"reason":"NodeLost"}`)}
		}), Tool{}, head + `"status":"failed","statusMessage":"the node is gone",` + at + `,"error":{"code":-32603,"message":"the node is gone","data":{"reason":"NodeLost"}}` + tail},
		"failed without a word": {newTask(func(t *v1alpha1.McpTask) { t.Status.State = v1alpha1.TaskFailed }), Tool{},
			head + `"status":"failed","statusMessage":"The task failed",` + at + `,"error":{"code":-32603,"message":"The task failed"}` + tail},
		"cancelled": {newTask(func(t *v1alpha1.McpTask) { t.Status.State = v1alpha1.TaskCancelled }), Tool{}, head + `"status":"cancelled",` + at + tail},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := GetTaskResult(taskOf(tc.task, tc.tool, Elicitation{Form: true}), server)
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestAHandleIsFlatAndOnlyASeed(t *testing.T) {
	task := newTask(func(t *v1alpha1.McpTask) {
		t.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: &v1alpha1.TaskResult{Inline: raw(`{}`)}}
	})
	got, err := CreateTaskResult(taskOf(task, Tool{}, Elicitation{}))
	if want := `{"resultType":"task","taskId":"abc","status":"completed",` + at + `}`; err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestResultsAreMadeFitToSend(t *testing.T) {
	schema, err := toolschema.Compile([]byte(`{"type":"object","properties":{"pages":{"type":"integer"}},"required":["pages"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		stored string
		output *toolschema.Schema
		want   string
	}{
		"as it is": {`{"content":[{"type":"text","text":"hi"}],"_meta":{"a":1}}`, nil,
			`{"resultType":"complete","content":[{"type":"text","text":"hi"}],"_meta":{"a":1}}`},
		"empty": {`{}`, nil, `{"resultType":"complete","content":[]}`},
		"structured content stands in a text block too": {`{"structuredContent":{"pages":3}}`, schema,
			`{"resultType":"complete","content":[{"type":"text","text":"{\"pages\":3}"}],"structuredContent":{"pages":3}}`},
		"but not twice": {`{"content":[{"type":"text","text":" {\"pages\": 3}\n"}],"structuredContent":{"pages":3}}`, schema,
			`{"resultType":"complete","content":[{"type":"text","text":" {\"pages\": 3}\n"}],"structuredContent":{"pages":3}}`},
		"other text is not it": {`{"content":[{"type":"text","text":"{\"pages\":4}"},{"type":"image","data":"","mimeType":"a/b"}],"structuredContent":{"pages":3}}`, nil,
			`{"resultType":"complete","content":[{"type":"text","text":"{\"pages\":4}"},{"type":"image","data":"","mimeType":"a/b"},{"type":"text","text":"{\"pages\":3}"}],"structuredContent":{"pages":3}}`},
		"an array": {`{"structuredContent":[1]}`, nil,
			`{"resultType":"complete","content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`},
		"a result that does not fit": {`{"content":[{"type":"text","text":"hi"}],"structuredContent":{"pages":"many"},"_meta":{"a":1}}`, schema,
			`{"resultType":"complete","content":[{"type":"text","text":"The tool's result does not fit its outputSchema: structuredContent: /pages: got string, want integer"},{"type":"text","text":"hi"}],"isError":true,"_meta":{"a":1}}`},
		"nothing structured": {`{"content":[]}`, schema,
			`{"resultType":"complete","content":[{"type":"text","text":"The tool's result does not fit its outputSchema: structuredContent is missing"}],"isError":true}`},
		"an error need not fit": {`{"content":[{"type":"text","text":"exit code 3"}],"isError":true}`, schema,
			`{"resultType":"complete","content":[{"type":"text","text":"exit code 3"}],"isError":true}`},
		"another result type is not believed": {`{"resultType":"task","content":[]}`, nil, `{"resultType":"complete","content":[]}`},
		"no result":                           {`[]`, nil, `{"resultType":"complete","content":[{"type":"text","text":"The stored result of the tool is not a tool result and cannot be shown."}],"isError":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(newCallResult(&v1alpha1.TaskResult{}, []byte(tc.stored), tc.output))
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
	left := newCallResult(&v1alpha1.TaskResult{Truncated: true}, []byte(`{"content":[{"text":"[left out]","type":"text"}]}`), schema)
	if !left.IsError || len(left.Content) != 2 || !strings.Contains(string(left.Content[0]), "structuredContent is missing, because the result is too large") {
		t.Errorf("structured content that was left out: got %s", left.Content)
	}
	if got := newCallResult(nil, nil, nil); !got.IsError || len(got.Content) != 1 {
		t.Errorf("no result at all: got %+v", got)
	}
}

func TestErrorsHaveTheirStatusAndData(t *testing.T) {
	for want, e := range map[string]*Error{
		`404 {"code":-32601,"message":"Method not found"}`: MethodNotFound(),
		`400 {"code":-32602,"message":"Unknown task"}`:     UnknownTask(),
		`400 {"code":-32020,"message":"x"}`:                HeaderMismatch("x"),
		`200 {"code":-32603,"message":"x"}`:                {Code: CodeInternalError, Message: "x"},
		`200 {"code":7,"message":"x"}`:                     {Code: 7, Message: "x"},
		`503 {"code":-32603,"message":"x"}`:                {Code: CodeInternalError, Message: "x", Status: 503},
		`400 {"code":-32021,"message":"Missing required client capability: the extension io.modelcontextprotocol/tasks","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`:                                           MissingTasksCapability(),
		`400 {"code":-32022,"message":"Unsupported protocol version; supported: 2026-07-28, and by initialize 2025-11-25, 2025-06-18, 2025-03-26","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"requested":"1900-01-01"}}`: UnsupportedVersion("1900-01-01"),
	} {
		got := fmt.Sprintf("%d %s", e.HTTPStatus(), ErrorResponse(nil, e))
		status, failure, _ := strings.Cut(want, " ")
		if got != status+` {"jsonrpc":"2.0","error":`+failure+`}` {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestAResultFromSecretsIsLookedIntoBeforeItIsShown(t *testing.T) {
	stored := &v1alpha1.TaskResult{SecretRef: &v1alpha1.SecretReference{Name: "x-0", Parts: 1}}
	for raw, good := range map[string]bool{
		`{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"x:y","text":""}}],"structuredContent":{"n":12345678901234567890}}`: true,
		`{"content":[{"type":"tool_use"}]}`:                     false,
		`{"content":["a"]}`:                                     false,
		`{"content":{}}`:                                        false,
		`{"content":[],"_meta":[]}`:                             false,
		"{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}": false,
		`{"content":[`:                                          false,
	} {
		got, err := json.Marshal(newCallResult(stored, []byte(raw), nil))
		if err != nil || strings.Contains(string(got), "cannot be shown") == good {
			t.Errorf("%q: got %s, %v", raw, got, err)
		}
	}
}

func TestAResultThatWasHandedOverBeforeTheToolFailedIsItsError(t *testing.T) {
	code := int32(3)
	stored := &v1alpha1.TaskResult{SecretRef: &v1alpha1.SecretReference{Name: "x-0", Parts: 1}, ExitCode: &code, IsError: true}
	got, err := json.Marshal(newCallResult(stored, []byte(`{"content":[],"_meta":{"a":1}}`), nil))
	const want = `{"resultType":"complete","content":[{"type":"text","text":"The tool handed over this result and then ended with exit code 3."}],"isError":true,"_meta":{"a":1,"mcptask.dev/exitCode":3}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// taskOf is what is said about a task whose result, if any, stands in it.
func taskOf(task *v1alpha1.McpTask, tool Tool, client Elicitation) *Task {
	var result []byte
	if stored := task.Status.Result; stored != nil && stored.Inline != nil {
		result = stored.Inline.Raw
	}
	return NewTask(task, tool, client, result)
}
