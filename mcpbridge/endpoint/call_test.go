package endpoint

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

func TestDiscoverAndList(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("b", func(s *v1alpha1.McpToolSpec) {
		yes := true
		s.Title, s.Annotations = "B", &v1alpha1.ToolAnnotations{ReadOnlyHint: &yes}
		s.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567}}}`)}
		s.OutputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object"}`)}
	})
	f.offer("a", nil)
	const serverInfo = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcptask-bridge","version":"test"}}`
	for method, want := range map[string]string{
		"server/discover": `{"resultType":"complete",` + serverInfo + `,"ttlMs":300000,"cacheScope":"private","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{"listChanged":true}}}`,
		"tools/list": `{"resultType":"complete",` + serverInfo + `,"ttlMs":5000,"cacheScope":"private","tools":[` +
			`{"description":"d","inputSchema":{"type":"object"},"name":"a"},` +
			`{"annotations":{"idempotentHint":false,"readOnlyHint":true},"description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567}}},"name":"b","outputSchema":{"type":"object"},"title":"B"}]}`,
	} {
		response := f.alice.Call(t, method, nil)
		if string(response.Result) != want || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s\ngot  %s\nwant %s", method, response.Result, want)
		}
	}
}

func TestACallBecomesATask(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(s *v1alpha1.McpToolSpec) {
		s.Name = "wire_name"
		s.TTL = &v1alpha1.TTLPolicy{Default: &metav1.Duration{Duration: time.Hour}}
		s.PollInterval = &metav1.Duration{Duration: 700 * time.Millisecond}
	})
	response := f.alice.Call(t, "tools/call", map[string]any{
		"name": "wire_name", "arguments": map[string]any{"a": "$(X)"},
		"task":  map[string]any{"ttl": 5}, // of an older protocol: ignored
		"_meta": map[string]any{"progressToken": json.RawMessage("12345678901234567890")},
	})
	task := f.cluster.only(t)
	var got map[string]any
	if err := json.Unmarshal(response.Result, &got); err != nil {
		t.Fatal(response.Raw)
	}
	for name, want := range map[string]any{"resultType": "task", "taskId": task.Name, "status": "working", "ttlMs": 3600000.0, "pollIntervalMs": 700.0,
		"createdAt": task.CreationTimestamp.UTC().Format(time.RFC3339Nano)} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v, in %s", name, got[name], want, response.Raw)
		}
	}
	if strings.Contains(strings.Replace(response.Raw, `"ttlMs":null`, "", 1), "null") || response.Status != 200 {
		t.Errorf("HTTP %d with %s", response.Status, response.Raw)
	}
	spec := task.Spec
	owner := v1alpha1.Identity{Issuer: "test", Subject: "alice"}
	if spec.ToolName != "tool" || *spec.Owner != owner || string(spec.Arguments.Raw) != `{"a":"$(X)"}` || spec.TTL.Duration != time.Hour ||
		string(spec.ClientCapabilities.Raw) != `{"extensions":{"io.modelcontextprotocol/tasks":{}}}` || spec.ProgressToken != "12345678901234567890" {
		t.Errorf("stored is %+v", spec)
	}
	if task.Labels[v1alpha1.LabelTool] != "tool" || task.Labels[v1alpha1.LabelOwner] != owner.Hash() || !v1alpha1.ValidTaskID(task.Name) {
		t.Errorf("stored are the labels %v on %s", task.Labels, task.Name)
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(s *v1alpha1.McpToolSpec) {
		s.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","required":["url"],"additionalProperties":false,"properties":{
			"url":{"type":"string"},"depth":{"type":"integer"},"region":{"type":"string","x-mcp-header":"Region"}}}`)}
	})
	f.offer("required", waits(v1alpha1.TaskSupportRequired, 0, time.Second))
	for name, tc := range map[string]struct{ params, words, data string }{
		"unknown tool":        {`"name":"none"`, "Unknown tool: none", ""},
		"no arguments":        {`"name":"tool"`, "url", `{"faults":[{"pointer":"","reason":"missing property 'url'"}],"more":0}`},
		"null arguments":      {`"name":"tool","arguments":null`, "arguments must be an object", ""},
		"a list of arguments": {`"name":"tool","arguments":["x"]`, "arguments must be an object", ""},
		"another type":        {`"name":"tool","arguments":{"url":"x","depth":"deep"}`, "/depth: got string, want integer", `{"faults":[{"pointer":"/depth","reason":"got string, want integer"}],"more":0}`},
		"a rounded number":    {`"name":"tool","arguments":{"url":"x","depth":12345678901234567890123}`, "/depth: this number cannot be kept", ""},
		"a NUL character":     {`"name":"tool","arguments":{"url":"a\u0000b"}`, "/url: holds a NUL", ""},
		"too long for a variable": {`"name":"tool","arguments":{"url":"` + strings.Repeat("x", 110<<10) + `"}`,
			"/url: is 112640 bytes long", ""},
		"too many arguments": {`"name":"tool","arguments":{"url":"` + strings.Repeat("x", 140<<10) + `"}`, "at most 131072", ""},
		"odd clientInfo":     {`"name":"tool","arguments":{"url":"x"},"_meta":{"io.modelcontextprotocol/clientInfo":"SECRET","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`, "Invalid params", ""},
		"odd capabilities":   {`"name":"tool","arguments":{"url":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":"SECRET"}}`, "invalid extensions or elicitation", ""},
		"large capabilities": {`"name":"tool","arguments":{"url":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"x":"` + strings.Repeat("x", 20<<10) + `"}}`, "16384 bytes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			params := tc.params
			if !strings.Contains(params, "_meta") {
				params += "," + someMeta
			}
			tool := "tool"
			if name == "unknown tool" {
				tool = "none"
			}
			response := f.alice.Call(t, "tools/call", map[string]any{"name": tool}, body("tools/call", "{"+params+"}"))
			failsWith(t, response, -32602, 400, tc.words)
			if response.Error != nil && tc.data != "" && string(response.Error.Data) != tc.data {
				t.Errorf("data is %s, want %s", response.Error.Data, tc.data)
			}
			for _, leak := range []string{"SECRET", "mcp.", "json:", "goroutine", "Go value"} {
				if strings.Contains(response.Raw, leak) {
					t.Errorf("the answer repeats %q: %s", leak, response.Raw)
				}
			}
		})
	}
	response := f.alice.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": map[string]any{"url": "x", "region": "eu"}})
	failsWith(t, response, -32020, 400, "Mcp-Param-Region")
	failsWith(t, f.alice.Call(t, "tools/list", map[string]any{"cursor": 7}), -32602, 400, "params.cursor must be a string")
	failsWith(t, f.alice.Call(t, "tools/list", map[string]any{"cursor": "SECRET"}), -32602, 400, "Invalid params")
	old := f.alice
	old.Tasks = false
	failsWith(t, old.Call(t, "tools/call", map[string]any{"name": "required"}), -32021, 400, "io.modelcontextprotocol/tasks")
	if f.cluster.count() != 0 {
		t.Errorf("%d tasks were made", f.cluster.count())
	}
}

func TestWhatTheClusterRefuses(t *testing.T) {
	webhook := apierrors.NewForbidden(schema.GroupResource{Resource: "mcptasks"}, "x", fmt.Errorf("admission webhook \"secret-webhook\" denied the request"))
	for name, tc := range map[string]struct {
		onCreate func(f *fixture) func(*v1alpha1.McpTask) error
		words    string // "" for an answer with a task
	}{
		"a webhook": {func(*fixture) func(*v1alpha1.McpTask) error { return func(*v1alpha1.McpTask) error { return webhook } }, "does not accept a task"},
		"an outage": {func(*fixture) func(*v1alpha1.McpTask) error {
			return func(*v1alpha1.McpTask) error { return errRefused }
		}, "not known whether the task"},
		"a panic": {func(*fixture) func(*v1alpha1.McpTask) error {
			return func(*v1alpha1.McpTask) error { panic("secret-panic") }
		}, "Internal error"},
		"an answer lost": {func(f *fixture) func(*v1alpha1.McpTask) error {
			return func(task *v1alpha1.McpTask) error { f.cluster.put(task); return errRefused }
		}, ""},
		"a request twice": {func(f *fixture) func(*v1alpha1.McpTask) error {
			return func(task *v1alpha1.McpTask) error {
				f.cluster.put(task)
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "mcptasks"}, task.Name)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.offer("tool", nil)
			f.cluster.onCreate = tc.onCreate(f)
			response := f.alice.Call(t, "tools/call", map[string]any{"name": "tool"})
			if tc.words == "" {
				if response.Error != nil || f.cluster.count() != 1 {
					t.Errorf("got %s with %d tasks", response.Raw, f.cluster.count())
				}
				return
			}
			status := http.StatusOK
			if name == "a panic" {
				status = http.StatusInternalServerError
			}
			failsWith(t, response, -32603, status, tc.words)
			var data struct{ ErrorID string }
			if json.Unmarshal(response.Error.Data, &data) != nil || !strings.Contains(f.log.String(), `"errorId":"`+data.ErrorID+`"`) || data.ErrorID == "" {
				t.Errorf("the log does not have the error of %s", response.Raw)
			}
			if strings.Contains(response.Raw, "secret") || strings.Contains(response.Raw, "10.0.0.1") {
				t.Errorf("the answer says too much: %s", response.Raw)
			}
			// And the bridge lives on.
			f.cluster.onCreate = nil
			f.handle(t, "tool")
		})
	}
}

func TestTheBridgeSurvivesAnything(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", waits(v1alpha1.TaskSupportOptional, time.Millisecond, time.Millisecond))
	fragments := []string{`null`, `7`, `"x"`, `[]`, `{}`, `{"a":null}`, `1e999`, `-0`, `"\ud800"`, `[[[[{}]]]]`, `{"":{"":{}}}`}
	for _, method := range []string{"tools/call", "tools/list", "server/discover", "tasks/get", "tasks/cancel"} {
		for _, field := range []string{"name", "taskId", "arguments", "cursor", "inputResponses", "requestState", "task", "notifications", "_meta"} {
			for _, fragment := range fragments {
				params := `{"` + field + `":` + fragment + `,` + someMeta + `}`
				if field == "_meta" {
					params = `{"name":"tool",` + strings.TrimSuffix(someMeta, "}") + `,"io.modelcontextprotocol/clientInfo":` + fragment +
						`,"io.modelcontextprotocol/logLevel":` + fragment + `,"progressToken":` + fragment + `}}`
				}
				request, err := f.alice.Request(t.Context(), method, map[string]any{"name": "tool"})
				if err != nil {
					t.Fatal(err)
				}
				body(method, params)(request)
				response, err := mcptest.Do(request)
				if err != nil {
					t.Fatalf("%s with %s: %v", method, params, err)
				}
				if response.Error != nil && response.Error.Code == -32603 || response.Status >= http.StatusInternalServerError {
					t.Errorf("%s with %s: HTTP %d with %s", method, params, response.Status, response.Raw)
				}
			}
		}
	}
	if log := f.log.String(); strings.Contains(log, "panic") {
		t.Errorf("a panic: %s", log)
	}
}

// A call that is answered with a task at once does not go through the SDK. What it is told is the same.
func TestAHandleIsTheSameWithAndWithoutTheSDK(t *testing.T) {
	answers := map[string]*mcptest.Response{}
	for name, schema := range map[string]string{"without": `{"type":"object"}`, "with": `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`} {
		f := newFixture(t, nil)
		f.offer("tool", func(s *v1alpha1.McpToolSpec) { s.InputSchema = &runtime.RawExtension{Raw: []byte(schema)} })
		response := f.alice.Call(t, "tools/call", map[string]any{"name": "tool", "arguments": map[string]any{}})
		task := f.cluster.only(t)
		response.Raw = strings.NewReplacer(task.Name, "TASK", task.CreationTimestamp.UTC().Format(time.RFC3339Nano), "NOW").Replace(response.Raw)
		answers[name] = response
	}
	with, without := answers["with"], answers["without"]
	if with.Error != nil || with.Raw != without.Raw || with.Status != without.Status || with.Header.Get("Content-Type") != without.Header.Get("Content-Type") {
		t.Errorf("HTTP %d %s\n%s\nwithout the SDK HTTP %d %s\n%s", with.Status, with.Header.Get("Content-Type"), with.Raw, without.Status, without.Header.Get("Content-Type"), without.Raw)
	}
}
