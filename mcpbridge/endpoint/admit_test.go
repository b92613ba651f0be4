package endpoint

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

const (
	id       = "abcdefghijklmnopqrstuvwxyz"
	someMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
)

func body(method, params string) func(*http.Request) {
	return mcptest.Body(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
}

func TestNoMethodIsWithoutRules(t *testing.T) {
	for method, rule := range methods() {
		fields := reflect.ValueOf(rule)
		for i := range fields.NumField() {
			if fields.Field(i).IsZero() {
				t.Errorf("%s has no rule for %s", method, fields.Type().Field(i).Name)
			}
		}
		if strings.HasPrefix(method, "tasks/") && (rule.capability != tasksCapability || rule.object != ownTask || rule.name != taskID) {
			t.Errorf("%s may be used without the extension, the header or the task's owner", method)
		}
	}
}

// Both ways of answering, the bridge's own and the SDK's, refuse the same things in the same words.
func TestWhatIsRefused(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.AllowedHosts = []string{"127.0.0.1", "mcp.example.com"} })
	f.offer("tool", nil)
	for _, method := range []string{"tasks/get", "tasks/cancel", "tools/call", "tools/list", "server/discover"} {
		params := map[string]any{}
		name := ""
		switch method {
		case "tasks/get", "tasks/cancel":
			params["taskId"], name = id, `"taskId":"`+id+`",`
		case "tools/call":
			params["name"], name = "tool", `"name":"tool",`
		}
		for what, tc := range map[string]struct {
			edit   func(*http.Request)
			code   int64
			status int
			words  string
		}{
			"another method":         {func(r *http.Request) { r.Method = http.MethodGet }, -32600, 405, "POST"},
			"DELETE":                 {func(r *http.Request) { r.Method = http.MethodDelete }, -32600, 405, "POST"},
			"another host":           {func(r *http.Request) { r.Host = "evil.example.com" }, -32600, 403, "Host"},
			"another origin":         {mcptest.Header("Origin", "https://evil.example.com"), -32600, 403, "cross-origin"},
			"a cross-site fetch":     {mcptest.Header("Sec-Fetch-Site", "cross-site"), -32600, 403, "cross-origin"},
			"text":                   {mcptest.Header("Content-Type", "text/plain"), -32600, 415, "application/json"},
			"no stream accepted":     {mcptest.Header("Accept", "application/json"), -32600, 400, "text/event-stream"},
			"nothing accepted":       {mcptest.Header("Accept", ""), -32600, 400, "Accept"},
			"no credentials":         {mcptest.Header("Authorization", ""), -32600, 401, "required"},
			"bad credentials":        {mcptest.Header("Authorization", "Bearer unknown"), -32600, 401, "not accepted"},
			"identities unavailable": {mcptest.Header("Authorization", "Bearer outage"), -32603, 503, "log"},
			"too large":              {mcptest.Body(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`), -32600, 413, "larger"},
			"no JSON":                {mcptest.Body(`{`), -32700, 400, "JSON"},
			"a batch":                {mcptest.Body(`[{"jsonrpc":"2.0","id":1,"method":"` + method + `"}]`), -32600, 400, "batches"},
			"no id":                  {mcptest.Body(`{"jsonrpc":"2.0","method":"` + method + `","params":{` + name + someMeta + `}}`), -32600, 400, "no id"},
			"no version header":      {mcptest.Header("Mcp-Protocol-Version", ""), -32020, 400, "MCP-Protocol-Version is missing"},
			"version mismatch":       {mcptest.Header("Mcp-Protocol-Version", "2025-11-25"), -32020, 400, "does not match"},
			"unsupported version": {func(r *http.Request) {
				mcptest.Header("Mcp-Protocol-Version", "1900-01-01")(r)
				body(method, strings.ReplaceAll(`{`+name+someMeta+`}`, "2026-07-28", "1900-01-01"))(r)
			}, -32022, 400, "2026-07-28"},
			"a later version": {func(r *http.Request) {
				mcptest.Header("Mcp-Protocol-Version", "2027-01-01")(r)
				body(method, strings.ReplaceAll(`{`+name+someMeta+`}`, "2026-07-28", "2027-01-01"))(r)
			}, -32022, 400, "2026-07-28"},
			"no method header": {mcptest.Header("Mcp-Method", ""), -32020, 400, "Mcp-Method is missing"},
			"method mismatch":  {mcptest.Header("Mcp-Method", "tools/other"), -32020, 400, "Mcp-Method"},
			"no params":        {mcptest.Body(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`), -32602, 400, "params"},
			"null params":      {body(method, `null`), -32602, 400, "params"},
			"an array":         {body(method, `[]`), -32602, 400, "params"},
			"no _meta":         {body(method, `{}`), -32602, 400, "_meta"},
			"null capabilities": {body(method, `{`+name+`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":null}}`),
				-32602, 400, "clientCapabilities"},
		} {
			t.Run(method+"/"+what, func(t *testing.T) {
				response := f.alice.Call(t, method, params, tc.edit)
				failsWith(t, response, tc.code, tc.status, tc.words)
				if (response.Status == 401) != (response.Header.Get("WWW-Authenticate") != "") {
					t.Errorf("WWW-Authenticate is %q", response.Header.Get("WWW-Authenticate"))
				}
			})
		}
	}
	if f.cluster.count() != 0 || f.cluster.reads != 0 {
		t.Errorf("%d tasks were made, %d read", f.cluster.count(), f.cluster.reads)
	}
	if log := f.log.String(); strings.Contains(log, "Bearer") || strings.Contains(log, "unknown\"") {
		t.Error("a token is in the log")
	}
}

func TestMethodsThatAreNot(t *testing.T) {
	f := newFixture(t, nil)
	for _, method := range []string{"tasks/result", "tasks/list", "ping", "initialize", "prompts/list", "nonsense"} {
		failsWith(t, f.alice.Call(t, method, map[string]any{"taskId": id}), -32601, 404, "Method not found")
	}
}

func TestNotificationsAreAccepted(t *testing.T) {
	f := newFixture(t, nil)
	response := f.alice.Call(t, "x", nil, mcptest.Body(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	if response.Status != http.StatusAccepted || response.Raw != "" {
		t.Errorf("got HTTP %d with %q", response.Status, response.Raw)
	}
}

// Who does not declare the extension learns that, and nothing about the task.
func TestTheCapabilityComesBeforeTheTask(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	old := f.alice
	old.Tasks = false
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		for _, id := range []string{known, id, "nonsense"} {
			response := old.Call(t, method, map[string]any{"taskId": id})
			failsWith(t, response, -32021, 400, "io.modelcontextprotocol/tasks")
			if want := `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`; string(response.Error.Data) != want {
				t.Errorf("data is %s", response.Error.Data)
			}
		}
	}
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("the task was cancelled all the same")
	}
}

func TestTheNameHeader(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	f.offer("other", func(s *v1alpha1.McpToolSpec) {})
	known := f.handle(t, "tool")
	encoded := func(s string) func(*http.Request) { return mcptest.Header("Mcp-Name", s) }
	for _, method := range []string{"tasks/get", "tools/call"} {
		params, base64 := map[string]any{"taskId": known}, ""
		if method == "tools/call" {
			params, base64 = map[string]any{"name": "tool"}, "=?base64?dG9vbA==?="
		}
		failsWith(t, f.alice.Call(t, method, params, encoded("")), -32020, 400, "Mcp-Name is missing")
		failsWith(t, f.alice.Call(t, method, params, encoded("other")), -32020, 400, "Mcp-Name does not match")
		failsWith(t, f.alice.Call(t, method, params, encoded("=?base64?***?=")), -32020, 400, "Mcp-Name does not match")
		if base64 != "" {
			if response := f.alice.Call(t, method, params, encoded(base64)); response.Error != nil {
				t.Errorf("%s with an encoded name: %s", method, response.Raw)
			}
		}
	}
	failsWith(t, f.alice.Call(t, "tasks/get", nil, encoded(known)), -32602, 400, "taskId must be a string")
	failsWith(t, f.alice.Call(t, "tasks/get", map[string]any{"taskId": 7}, encoded("7")), -32602, 400, "taskId must be a string")
	failsWith(t, f.alice.Call(t, "tools/call", map[string]any{"name": []string{"tool"}}, encoded("tool")), -32602, 400, "name must be a string")

	tolerant := newFixture(t, func(c *Config) { c.TolerateMissingName = true })
	tolerant.offer("tool", nil)
	known = tolerant.handle(t, "tool")
	if response := tolerant.alice.Call(t, "tasks/get", map[string]any{"taskId": known}, encoded("")); response.Error != nil {
		t.Errorf("tolerated absence: %s", response.Raw)
	}
	failsWith(t, tolerant.alice.Call(t, "tasks/get", map[string]any{"taskId": known}, encoded("other")), -32020, 400, "does not match")
	failsWith(t, tolerant.alice.Call(t, "tools/call", map[string]any{"name": "tool"}, encoded("")), -32020, 400, "missing")
}

func TestNamespaces(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Namespaces = []string{"team", "second"} })
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	elsewhere := func(path string) mcptest.Client {
		client := f.alice
		client.URL = strings.TrimSuffix(client.URL, "/mcp/team") + path
		return client
	}
	if response := elsewhere("/mcp").Call(t, "tasks/get", map[string]any{"taskId": known}); response.Error != nil {
		t.Errorf("the default namespace: %s", response.Raw)
	}
	failsWith(t, elsewhere("/mcp/second").Call(t, "tasks/get", map[string]any{"taskId": known}), -32602, 400, "Unknown task")
	failsWith(t, elsewhere("/mcp/third").Call(t, "tools/list", nil), -32600, 404, "no endpoint")
	failsWith(t, elsewhere("/mcp/No_Namespace").Call(t, "tools/list", nil), -32600, 404, "no endpoint")
}
