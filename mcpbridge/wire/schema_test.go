package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// definition compiles one definition of a published schema.
func definition(t *testing.T, file, name string) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema:///"+file, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema:///" + file + "#/$defs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// fits says whether a text fits a definition.
func fits(t *testing.T, schema *jsonschema.Schema, text []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s\n%v", text, err)
	}
}

// tasksInEveryState are tasks as they may be stored, by what they show.
func tasksInEveryState() map[string]*v1alpha1.McpTask {
	object := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	all := map[string]*v1alpha1.McpTask{}
	add := func(name string, status v1alpha1.McpTaskStatus) {
		task := &v1alpha1.McpTask{Status: status}
		task.Name, task.CreationTimestamp = "abcdefghijklmnopqrstuvwxyz", metav1.NewTime(time.Date(2026, 7, 28, 10, 0, 0, 0, time.UTC))
		if name == "with a ttl" {
			task.Spec.TTL = &metav1.Duration{Duration: time.Hour}
		}
		all[name] = task
	}
	add("new", v1alpha1.McpTaskStatus{})
	add("with a ttl", v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: "runs"})
	add("asking", v1alpha1.McpTaskStatus{State: v1alpha1.TaskInputRequired, InputRequests: []v1alpha1.InputRequest{
		{Key: "form", Method: "elicitation/create", Params: object(`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["x"]}},"required":["a"]}}`)},
		{Key: "url", Method: "elicitation/create", Params: object(`{"mode":"url","message":"m","url":"https://example.com"}`)},
	}})
	inline := object(`{"content":[{"type":"text","text":"x"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":1},"_meta":{"mcptask.dev/exitCode":0}}`)
	add("completed", v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: &v1alpha1.TaskResult{Inline: &inline}})
	add("completed without a result", v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted})
	data := object(`{"x":1}`)
	add("failed", v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Message: "no", Error: &v1alpha1.TaskError{Code: -32000, Message: "no", Data: &data}})
	add("failed without an error", v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed})
	add("cancelled", v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled, Message: "by ann"})
	return all
}

func TestAnswersFitThePublishedSchemaOfTheExtension(t *testing.T) {
	const file = "tasks-extension.schema.json"
	get, create := definition(t, file, "GetTaskResult"), definition(t, file, "CreateTaskResult")
	server := ServerInfo{Name: "s", Version: "1"}
	for name, task := range tasksInEveryState() {
		t.Run(name, func(t *testing.T) {
			for _, client := range []Elicitation{{}, {Form: true}, {Form: true, URL: true}} {
				built := taskOf(task, Tool{}, client)
				result, _, err := GetTaskResult(built, server)
				if err != nil {
					t.Fatal(err)
				}
				fits(t, get, result)
				handle, err := CreateTaskResult(built)
				if err != nil {
					t.Fatal(err)
				}
				fits(t, create, handle)
			}
		})
	}
	acknowledgement, err := Acknowledgement(server)
	if err != nil {
		t.Fatal(err)
	}
	fits(t, definition(t, file, "UpdateTaskResult"), acknowledgement)
	fits(t, definition(t, file, "CancelTaskResult"), acknowledgement)
}

func TestQuestionsFitThePublishedSchemaOfTheProtocol(t *testing.T) {
	asking := taskOf(tasksInEveryState()["asking"], Tool{}, Elicitation{Form: true, URL: true})
	result, err := InputRequiredResult(asking.InputRequests, "state")
	if err != nil {
		t.Fatal(err)
	}
	fits(t, definition(t, "core-2026-07-28.schema.json", "InputRequiredResult"), result)
	completed := taskOf(tasksInEveryState()["completed"], Tool{}, Elicitation{})
	inner, err := json.Marshal(completed.Result)
	if err != nil {
		t.Fatal(err)
	}
	fits(t, definition(t, "core-2026-07-28.schema.json", "CallToolResult"), inner)
}
