package endpoint

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// forms are the capabilities of a client that can show its user forms.
var forms = map[string]any{"elicitation": map[string]any{}}

// legacySession begins a session as alice, with the newest of the older versions.
func (f *fixture) legacySession(t testing.TB, capabilities map[string]any) *mcptest.Session {
	t.Helper()
	return f.alice.Initialize(t, mcptest.LegacyVersion, capabilities)
}

// replica is another replica on the same cluster.
func (f *fixture) replica(t testing.TB) *fixture {
	other := newFixture(t, func(c *Config) { c.API = f.cluster })
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.cluster.replicas = append(f.cluster.replicas, other.Store)
	return other
}

// asTask calls a tool as a task and returns the task's id.
func asTask(t testing.TB, s *mcptest.Session, tool string) string {
	t.Helper()
	response := s.Call(t, "tools/call", map[string]any{"name": tool, "task": map[string]any{}})
	var result struct{ Task struct{ TaskID string } }
	if response.Error != nil || json.Unmarshal(response.Result, &result) != nil || result.Task.TaskID == "" {
		t.Fatalf("no task but %s", response.Raw)
	}
	fits(t, "CreateTaskResult", response.Result)
	return result.Task.TaskID
}

type legacyTask struct {
	TaskID, Status, StatusMessage, CreatedAt, LastUpdatedAt string
	TTL                                                     *int64
	PollInterval                                            int64
}

func taskOf(t testing.TB, raw json.RawMessage) legacyTask {
	t.Helper()
	var task legacyTask
	if err := json.Unmarshal(raw, &task); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return task
}

func legacyGet(t testing.TB, s *mcptest.Session, id string) legacyTask {
	t.Helper()
	response := s.Call(t, "tasks/get", map[string]any{"taskId": id})
	if response.Error != nil {
		t.Fatal(response.Raw)
	}
	fits(t, "GetTaskResult", response.Result)
	return taskOf(t, response.Result)
}

// fits checks a value against the official schema of 2025-11-25, and that nothing of a newer revision is in it.
func fits(t testing.TB, definition string, raw json.RawMessage) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../wire/testdata/mcp-2025-11-25.schema.json#/$defs/" + definition)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s is no %s: %v", raw, definition, err)
	}
	for _, newer := range []string{"resultType", "ttlMs", "cacheScope", "pollIntervalMs", "io.modelcontextprotocol/tasks"} {
		if strings.Contains(string(raw), newer) {
			t.Errorf("%s is not of this revision: %s", newer, raw)
		}
	}
}

// refusesWithoutID checks an error that belongs to no request: it has no id, and its status says what to do.
func refusesWithoutID(t *testing.T, response *mcptest.Response, status int, words string) {
	t.Helper()
	failsWith(t, response, -32600, status, words)
	if len(response.ID) > 0 {
		t.Errorf("the error has the id %s", response.ID)
	}
}

func TestNoLegacyMethodIsWithoutRules(t *testing.T) {
	all := legacyMethods()
	all["GET"], all["a response"] = streamRule, responseRule
	for method, rule := range all {
		fields := reflect.ValueOf(rule)
		for i := range fields.NumField() {
			if fields.Field(i).IsZero() {
				t.Errorf("%s has no rule for %s", method, fields.Type().Field(i).Name)
			}
		}
		if strings.HasPrefix(method, "tasks/") && rule.object != ownTask && method != "tasks/list" {
			t.Errorf("%s may be used on the tasks of others", method)
		}
		if rule.capability == noCapability && method != "initialize" && method != "ping" {
			t.Errorf("%s needs no session", method)
		}
	}
}

func TestInitializeAgreesOnAVersion(t *testing.T) {
	f := newFixture(t, nil)
	for asked, tc := range map[string]struct{ version, tasks string }{
		"2025-11-25": {"2025-11-25", `{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`},
		"2025-06-18": {"2025-06-18", ``},
		"2025-03-26": {"2025-03-26", ``},
		"2024-11-05": {"2025-11-25", `{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`},
		"2026-07-28": {"2025-11-25", `{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`},
	} {
		s := f.alice.Initialize(t, asked, map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}})
		fits(t, "InitializeResult", s.Initialized.Result)
		var result struct {
			Capabilities map[string]json.RawMessage
			ServerInfo   struct{ Name, Version string }
		}
		if err := json.Unmarshal(s.Initialized.Result, &result); err != nil {
			t.Fatal(err)
		}
		if s.Version != tc.version || string(result.Capabilities["tasks"]) != tc.tasks || string(result.Capabilities["tools"]) != `{"listChanged":true}` ||
			result.ServerInfo.Name != "mcptask-bridge" || s.ID == "" {
			t.Errorf("%s: session %q with %s", asked, s.ID, s.Initialized.Raw)
		}
		if strings.Trim(s.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || len(s.ID) > 4096 {
			t.Errorf("the session id %q is not for a header", s.ID)
		}
	}
	if a, b := f.legacySession(t, nil), f.legacySession(t, nil); a.ID == b.ID {
		t.Error("two sessions have one id")
	}
	big := f.legacySession(t, map[string]any{"elicitation": map[string]any{"url": map[string]any{}}, "experimental": map[string]any{"x": strings.Repeat("x", 1<<16)}})
	if len(big.ID) > 4096 {
		t.Errorf("a session id of %d bytes", len(big.ID))
	}
	var opened session
	if err := f.Keys.Open(sealSession, big.ID, &opened); err != nil || string(opened.Capabilities) != `{"elicitation":{"url":{}}}` {
		t.Errorf("kept is %s, %v", opened.Capabilities, err)
	}
	for _, params := range []string{`null`, `{}`, `[]`, `{"protocolVersion":7,"capabilities":{}}`, `{"protocolVersion":"2025-11-25","capabilities":[]}`,
		`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":true}}`} {
		failsWith(t, f.alice.Call(t, "initialize", nil, mcptest.Header("Mcp-Protocol-Version", ""), body("initialize", params)), -32602, 200, "params")
	}
}

func TestAnonymousCallersCannotListTasks(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Authenticator = auth.Sources{Anonymous: true} })
	f.alice.Token = ""
	s := f.legacySession(t, nil)
	if strings.Contains(string(s.Initialized.Result), `"list"`) {
		t.Errorf("offered is %s", s.Initialized.Result)
	}
	failsWith(t, s.Call(t, "tasks/list", nil), -32601, 200, "Method not found")
	failsWith(t, s.Call(t, "tasks/get", map[string]any{"taskId": id}), -32602, 200, "Unknown task")
}

func TestSessionsAreVerified(t *testing.T) {
	f := newFixture(t, nil)
	other := f.replica(t)
	s := f.legacySession(t, nil)
	bob, elsewhere, forged, none := *s, *s, *s, *s
	bob.Token = "bob"
	elsewhere.URL = strings.Replace(s.URL, "/mcp/team", "/mcp/second", 1)
	forged.ID = "A" + s.ID
	none.ID = ""
	for _, method := range []string{"tools/list", "tasks/list", "tools/call", "tasks/get"} {
		refusesWithoutID(t, bob.Call(t, method, nil), 404, "initialize again")
		refusesWithoutID(t, elsewhere.Call(t, method, nil), 404, "initialize again")
		refusesWithoutID(t, forged.Call(t, method, nil), 404, "initialize again")
		refusesWithoutID(t, none.Call(t, method, nil), 400, "Mcp-Session-Id is missing")
	}
	if log := f.log.String(); strings.Count(log, "session of another caller or namespace") != 8 {
		t.Error("the log does not say who tried another's session")
	}
	if response := s.At(other.alice.URL).Call(t, "tools/list", nil); response.Error != nil {
		t.Errorf("another replica does not know the session: %s", response.Raw)
	}
	if response := s.Call(t, "tools/list", nil, mcptest.Header("Mcp-Protocol-Version", "")); response.Error != nil {
		t.Errorf("the session alone does not say the version: %s", response.Raw)
	}
	failsWith(t, s.Call(t, "tools/list", nil, mcptest.Header("Mcp-Protocol-Version", "2024-11-05")), -32022, 400, "2025-11-25")
}

func TestLegacyOddsAndEnds(t *testing.T) {
	f := newFixture(t, nil)
	s := f.legacySession(t, nil)
	if response := s.Call(t, "ping", nil); string(response.Result) != `{}` || response.Status != 200 {
		t.Errorf("ping: %s", response.Raw)
	}
	early := mcptest.Session{Client: f.alice, Version: mcptest.LegacyVersion}
	if response := early.Call(t, "ping", nil); string(response.Result) != `{}` {
		t.Errorf("ping before initialize: %s", response.Raw)
	}
	for _, method := range []string{"logging/setLevel", "prompts/list", "resources/list", "server/discover", "tasks/update", "subscriptions/listen", "nonsense"} {
		failsWith(t, s.Call(t, method, nil), -32601, 200, "Method not found")
	}
	old := f.alice.Initialize(t, "2025-06-18", nil)
	for _, method := range []string{"tasks/get", "tasks/list", "tasks/result", "tasks/cancel"} {
		failsWith(t, old.Call(t, method, map[string]any{"taskId": id}), -32601, 200, "Method not found")
	}
	for _, method := range []string{"notifications/initialized", "notifications/cancelled"} {
		if response := s.Call(t, method, nil, mcptest.Body(`{"jsonrpc":"2.0","method":"`+method+`"}`)); response.Status != http.StatusAccepted || response.Raw != "" {
			t.Errorf("%s: HTTP %d with %s", method, response.Status, response.Raw)
		}
	}
	response := s.Call(t, "x", nil, func(r *http.Request) { r.Method = http.MethodDelete })
	failsWith(t, response, -32600, 405, "GET and POST")
	if response.Header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow is %q", response.Header.Get("Allow"))
	}
	failsWith(t, s.Call(t, "tools/list", nil, mcptest.Body(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`)), -32602, 200, "params")
	refusesWithoutID(t, s.Call(t, "x", nil, mcptest.Body(`[]`)), 400, "batches")
	failsWith(t, s.Call(t, "tasks/get", map[string]any{"taskId": 7}), -32602, 200, "taskId must be a string")
}

func TestLegacyToolsSayWhatTheyDoWithTasks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("a", waits(forbidden, 0, long))
	f.offer("b", waits(v1alpha1.TaskSupportRequired, 0, long))
	f.offer("c", func(s *v1alpha1.McpToolSpec) {
		s.OutputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object"}`)}
	})
	for version, want := range map[string]string{"2025-11-25": "forbidden required optional", "2025-06-18": "  "} {
		response := f.alice.Initialize(t, version, nil).Call(t, "tools/list", nil)
		fits(t, "ListToolsResult", response.Result)
		var page struct {
			Tools []struct {
				Name      string
				Execution struct{ TaskSupport string }
			}
		}
		if err := json.Unmarshal(response.Result, &page); err != nil || len(page.Tools) != 3 {
			t.Fatal(response.Raw)
		}
		var got []string
		for _, tool := range page.Tools {
			got = append(got, tool.Execution.TaskSupport)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", version, got)
		}
	}
}

func TestLegacyToolsArePaged(t *testing.T) {
	f := newFixture(t, nil)
	for i := range toolPage + 5 {
		f.offer(strings.Repeat("t", 1+i%50)+string(rune('a'+i/50)), nil)
	}
	s := f.legacySession(t, nil)
	names := map[string]bool{}
	cursor, pages := map[string]any(nil), 0
	for {
		response := s.Call(t, "tools/list", cursor)
		fits(t, "ListToolsResult", response.Result)
		var page struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		if response.Error != nil || json.Unmarshal(response.Result, &page) != nil {
			t.Fatal(response.Raw)
		}
		for _, tool := range page.Tools {
			names[tool.Name] = true
		}
		pages++
		if page.NextCursor == "" {
			break
		}
		cursor = map[string]any{"cursor": page.NextCursor}
	}
	if len(names) != toolPage+5 || pages != 2 {
		t.Errorf("%d tools on %d pages", len(names), pages)
	}
	for _, bad := range []any{"x", 7, ""} {
		failsWith(t, s.Call(t, "tools/list", map[string]any{"cursor": bad}), -32602, 200, "cursor")
	}
}

// quick makes a fixture's streams beat fast.
func (f *fixture) quick() *fixture {
	f.subscriptions.rhythm.heartbeat = 20 * time.Millisecond
	return f
}

// total is how many GET streams are open.
func (l *listeners) total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
