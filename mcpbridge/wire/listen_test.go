package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestReadFilter(t *testing.T) {
	for raw, want := range map[string]Filter{
		`{}`:                         {},
		`{"toolsListChanged":false}`: {},
		`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["file:///a"],"novel":{"a":1}}`: {ToolsListChanged: true},
		`{"taskIds":[]}`:                     {TaskIDs: []string{}},
		`{"taskIds":["b","a","b","\u0061"]}`: {TaskIDs: []string{"b", "a"}},
	} {
		if got, failure := ReadFilter(json.RawMessage(raw)); failure != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", raw, got, failure)
		}
	}
	ids := strings.Repeat(`"a",`, maxTaskIDs)
	many := make([]string, maxTaskIDs+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"%d"`, i)
	}
	if _, failure := ReadFilter(json.RawMessage(`{"taskIds":[` + ids + `"a"]}`)); failure != nil {
		t.Errorf("one id many times: %v", failure)
	}
	for raw, field := range map[string]string{
		``:                                  "params.notifications must",
		`null`:                              "params.notifications must",
		`["taskIds"]`:                       "params.notifications must",
		`{"toolsListChanged":1}`:            "params.notifications.toolsListChanged must",
		`{"toolsListChanged":null}`:         "params.notifications.toolsListChanged must",
		`{"promptsListChanged":"true"}`:     "params.notifications.promptsListChanged must",
		`{"resourcesListChanged":[]}`:       "params.notifications.resourcesListChanged must",
		`{"resourceSubscriptions":true}`:    "params.notifications.resourceSubscriptions must",
		`{"taskIds":"a"}`:                   "params.notifications.taskIds must",
		`{"taskIds":null}`:                  "params.notifications.taskIds must",
		`{"taskIds":{"a":1}}`:               "params.notifications.taskIds must",
		`{"taskIds":["a",1]}`:               "params.notifications.taskIds must",
		`{"taskIds":[null]}`:                "params.notifications.taskIds must",
		`{"taskIds":["a"],"taskIds":["b"]}`: "a field of params.notifications",
		`{"taskIds":[` + strings.Join(many, ",") + `]}`: "params.notifications.taskIds may name at most 256",
	} {
		if _, failure := ReadFilter(json.RawMessage(raw)); failure == nil || failure.Code != CodeInvalidParams || !strings.HasPrefix(failure.Message, field) {
			t.Errorf("%.80s: got %v, want it to be about %q", raw, failure, field)
		}
	}
}

func TestMessagesOfASubscription(t *testing.T) {
	s, failure := NewSubscription(json.RawMessage(`"7"`))
	if failure != nil {
		t.Fatal(failure)
	}
	const meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":"7"}`
	for got, want := range map[string]string{
		string(s.Acknowledged(Filter{})):                                               `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},` + meta + `}}`,
		string(s.Acknowledged(Filter{TaskIDs: []string{}})):                            `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":[]},` + meta + `}}`,
		string(s.Acknowledged(Filter{ToolsListChanged: true, TaskIDs: []string{"a"}})): `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"taskIds":["a"]},` + meta + `}}`,
		string(s.ToolsListChanged()):                                                   `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + meta + `}}`,
		string(s.Response()):                                                           `{"jsonrpc":"2.0","id":"7","result":{"resultType":"complete",` + meta + `}}`,
		string(s.Cancelled("over")):                                                    `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"over",` + meta + `}}`,
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if _, failure := NewSubscription(json.RawMessage(`"` + strings.Repeat("x", maxSubscriptionIDBytes) + `"`)); failure == nil || failure.Code != CodeInvalidRequest {
		t.Errorf("an id that is too long: %v", failure)
	}
}

// The notification of a task has the fields of the result of tasks/get, byte for byte, and those of a result not.
func TestTheNotificationOfATask(t *testing.T) {
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "t1", CreationTimestamp: metav1.Unix(1754042400, 0)}}
	task.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Message: "no {\"image\"}"}
	result, fields, err := GetTaskResult(taskOf(task, Tool{}, Elicitation{}), ServerInfo{"bridge", "1"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"resultType":"complete",` + string(fields) + `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bridge","version":"1"}}}`; string(result) != want {
		t.Errorf("the result  %s\nis not from %s", result, fields)
	}
	s, failure := NewSubscription(json.RawMessage(`7`))
	if failure != nil {
		t.Fatal(failure)
	}
	head, middle, tail := s.Task(fields)
	want := `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t1","status":"failed","statusMessage":"no {\"image\"}",` +
		`"createdAt":"2025-08-01T10:00:00Z","lastUpdatedAt":"2025-08-01T10:00:00Z","ttlMs":null,"pollIntervalMs":2000,` +
		`"error":{"code":-32603,"message":"no {\"image\"}"},"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`
	if got := string(head) + string(middle) + string(tail); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
