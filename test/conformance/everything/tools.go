package main

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// tool is an McpTool and the work of its Jobs.
type tool struct {
	name, description string
	input             string // JSON Schema; any object when empty
	support           v1alpha1.TaskSupport
	preflight         []v1alpha1.PreflightQuestion
	asks              bool
	do                work
}

const (
	namePlease  = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	okPlease    = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	colorPlease = `{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`
	sure        = `{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`
)

// tools are what the suite calls and the bridge can offer: their tasks are made, awaited, asked and answered by the
// bridge as in a cluster. What the bridge has no notion of is in fixtures.go.
func tools(e *everything) []tool {
	return append([]tool{
		{name: "acknowledge", description: "Answers at once and needs nothing. The suite calls the first tool of the list so.", do: says("Acknowledged.")},
		{name: "test_simple_text", description: "Returns a text.", do: says("This is a simple text response for testing.")},
		{name: "test_image_content", description: "Returns an image.", do: returns(&mcp.ImageContent{Data: pixel, MIMEType: "image/png"})},
		{name: "test_audio_content", description: "Returns a sound.", do: returns(&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"})},
		{name: "test_embedded_resource", description: "Returns an embedded resource.", do: returns(embedded("test://embedded-resource"))},
		{name: "test_multiple_content_types", description: "Returns a text, an image and a resource.", do: returns(
			&mcp.TextContent{Text: "Multiple content types test:"}, &mcp.ImageContent{Data: pixel, MIMEType: "image/png"}, embedded("test://mixed-content-resource"))},
		{name: "test_error_handling", description: "Ends with an error of the tool.", do: fails("This tool intentionally returns an error for testing")},
		{name: "test_tool_with_progress", description: "Reports its progress.", do: reportsProgress},
		{name: "test_streaming_elicitation", description: "Answers on a stream that has notifications and a result.", do: says("Nothing but a result was sent.")},
		{name: "test_logging_tool", description: "Prints lines, which are no messages to the client.", do: says("Printed.")},
		{name: "test_trigger_tool_change", description: "Adds a tool to the list, or takes it off again.", do: e.changeTools},
		{name: "test_elicitation", description: "Asks the user.", asks: true,
			input: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`, do: asksUser},
		{name: "test_elicitation_sep1034_defaults", description: "Asks with a form that has defaults.", asks: true, do: asksFor(formWithDefaults)},
		{name: "test_elicitation_sep1330_enums", description: "Asks with a form that has choices.", asks: true, do: asksFor(formWithChoices)},
		{name: "json_schema_2020_12_tool", description: "Has a schema with the words of JSON Schema 2020-12.", input: schema202012, do: says("Called.")},
		{name: "test_x_mcp_header", description: "Has an argument that a header repeats.",
			input: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`, do: says("Called.")},
		{name: "test_input_required_result_elicitation", description: "Asks for a name before there is a task.",
			preflight: before("user_name", "What is your name?", namePlease), do: greetsAnswer},
		{name: "test_input_required_result_tampered_state", description: "Asks before there is a task; the state is sealed.",
			preflight: before("confirm", "Please confirm", okPlease), do: says("state-ok")},
		{name: "test_input_required_result_request_state", description: "Its Job asks; the state names the task.", asks: true, do: confirms},
		{name: "test_input_required_result_multi_round", description: "Asks before there is a task, and then its Job asks.", asks: true,
			preflight: before("step1", "Step 1: What is your name?", namePlease), do: asksForColor},
	}, taskTools()...)
}

// taskTools are those of the scenarios of the tasks extension.
func taskTools() []tool {
	return []tool{
		{name: "greet", description: "Greets somebody, synchronously.", support: v1alpha1.TaskSupportForbidden,
			input: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
			do: func(_ context.Context, j *job) (*mcp.CallToolResult, error) {
				return text("Hello, %v!", j.arguments["name"]), nil
			}},
		{name: "slow_compute", description: "Computes for some seconds, then says so.",
			input: `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`,
			do: func(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
				seconds, _ := j.arguments["seconds"].(float64)
				j.sleep(ctx, time.Duration(seconds*float64(time.Second)))
				return text("computed %v", j.arguments["label"]), nil
			}},
		{name: "failing_job", description: "Runs and fails, which is an error of the tool.", support: v1alpha1.TaskSupportRequired,
			do: func(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
				j.sleep(ctx, time.Second)
				return fails("it went wrong")(ctx, j)
			}},
		{name: "protocol_error_job", description: "Ends with an error of the call.",
			do: func(context.Context, *job) (*mcp.CallToolResult, error) {
				return nil, &protocolError{v1alpha1.TaskError{Code: -32000, Message: "the backend speaks no such protocol"}}
			}},
		{name: "confirm_delete", description: "Asks whether a file may be deleted, then says that it is.", support: v1alpha1.TaskSupportRequired, asks: true,
			input: `{"type":"object","properties":{"filename":{"type":"string"}},"required":["filename"]}`,
			do: func(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
				got, err := j.ask(ctx, question{"confirm", fmt.Sprintf("Delete %v?", j.arguments["filename"]), sure})
				return text("Answered: %v", got), err
			}},
		{name: "multi_input", description: "Asks two questions at once.", support: v1alpha1.TaskSupportRequired, asks: true,
			do: func(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
				got, err := j.ask(ctx, question{"name", "What is it called?", namePlease}, question{"confirm", "Shall it be done?", sure})
				return text("Answered: %v", got), err
			}},
		{name: "test_tool_with_task", description: "Asks for a name before there is a task, then greets.", support: v1alpha1.TaskSupportRequired,
			preflight: before("user_name", "What is your name?", namePlease), do: greetsAnswer},
	}
}

// object is the tool as the bridge's watch would show it.
func (t tool) object() *v1alpha1.McpTool {
	object := &v1alpha1.McpTool{}
	object.Namespace, object.Name, object.UID, object.Generation = namespace, t.name, types.UID(t.name), 1
	object.Spec.Description, object.Spec.Preflight = t.description, t.preflight
	object.Spec.PollInterval = &metav1.Duration{Duration: 200 * time.Millisecond}
	object.Spec.Execution.TaskSupport = t.support
	if t.support == "" {
		object.Spec.Execution.TaskSupport = v1alpha1.TaskSupportOptional
	}
	if t.input != "" {
		object.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(t.input)}
	}
	if t.asks {
		object.Spec.Runtime = &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm}}
	}
	object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	return object
}

func before(name, message, schema string) []v1alpha1.PreflightQuestion {
	return []v1alpha1.PreflightQuestion{{Name: name, Message: message, Schema: runtime.RawExtension{Raw: []byte(schema)}}}
}
