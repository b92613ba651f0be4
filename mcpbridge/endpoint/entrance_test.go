package endpoint

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// insides is what a program of Go says of itself: types, places in its source, stacks, addresses, its libraries' words.
var insides = regexp.MustCompile(`goroutine \d|runtime error|\bpanic\b|\.go:\d|0x[0-9a-f]{6,}|json: |unmarshal|strconv\.|invalid character|` +
	`\b(wire|endpoint|toolschema|jsonschema|jsonrpc|mcp|auth|v1alpha1|tasks|http|errors|fmt)\.[A-Z]\w+|\*\w+\.\w+|map\[|interface ?\{|<nil>|%!`)

// FuzzEntrance: whatever is sent by somebody whom the bridge knows, in either era, it answers with HTTP and JSON-RPC, has no
// error of its own, and tells nothing of its insides.
func FuzzEntrance(f *testing.F) {
	fixture := newFixture(f, nil)
	fixture.offer("tool", nil)
	s := fixture.legacySession(f, forms)
	type seed struct{ path, version, method, name, session, body string }
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	}
	for _, s := range []seed{
		{"/mcp/team", "2026-07-28", "server/discover", "", "", call("server/discover", meta)},
		{"/mcp/team", "2026-07-28", "tools/list", "", "", call("tools/list", `"cursor":"x",`+meta)},
		{"/mcp/team", "2026-07-28", "tools/call", "tool", "", call("tools/call", `"name":"tool","arguments":{"x":1},`+meta)},
		{"/mcp/team", "2026-07-28", "tools/call", "=?base64?dG9vbA==?=", "", call("tools/call", `"name":"tool",`+meta)},
		{"/mcp/team", "2026-07-28", "tasks/get", id, "", call("tasks/get", `"taskId":"`+id+`",`+meta)},
		{"/mcp/team", "2026-07-28", "tasks/update", id, "", call("tasks/update", `"taskId":"`+id+`","inputResponses":{"k":{}},`+meta)},
		{"/mcp/team", "2026-07-28", "tasks/cancel", id, "", call("tasks/cancel", `"taskId":"`+id+`",`+meta)},
		{"/mcp/team", "2026-07-28", "subscriptions/listen", "", "", call("subscriptions/listen", `"notifications":{"toolsListChanged":true,"taskIds":["`+id+`"]},`+meta)},
		{"/mcp/team", "2026-07-28", "tools/call", "tool", "", strings.Repeat("[", 200) + strings.Repeat("]", 200)},
		{"/mcp/team", "2026-07-28", "tools/call", "tool", "", `{"jsonrpc":"2.0","id":1e3,"id":2,"method":null}`},
		{"/mcp/team", "2026-07-28", "tools/call", "tool", "", call("tools/call", `"name":"tool","arguments":{"a":`+strings.Repeat("9", 400)+`},`+meta)},
		{"/mcp/team", "2025-11-25", "", "", s.ID, call("tools/list", `"cursor":"AAAA"`)},
		{"/mcp/team", "2025-11-25", "", "", s.ID, call("tasks/get", `"taskId":"`+id+`"`)},
		{"/mcp/team", "", "", "", "", call("initialize", `"protocolVersion":"2025-11-25","capabilities":{}`)},
		{"/mcp", "2026-07-28", "", "", "", ""},
		{"//mcp/../team", "2026-07-28", "", "", "", "\x00"},
		{"/mcp/%ff", "1", "2", "3", "4", "\xff"},
	} {
		f.Add(s.path, s.version, s.method, s.name, s.session, s.body)
	}
	f.Fuzz(func(t *testing.T, path, version, method, name, session, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // calls wait, and streams are open, until their client leaves
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
		request.URL.Path = path
		request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer alice"},
			"Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}, sessionHeader: {session}}
		request.Host = "localhost"
		recorder := httptest.NewRecorder()
		fixture.ServeHTTP(recorder, request)
		answer := recorder.Body.String()
		if recorder.Code >= 500 || strings.Contains(answer, "errorId") {
			t.Fatalf("HTTP %d with %s", recorder.Code, answer)
		}
		response, err := mcptest.Read(recorder.Code, recorder.Header(), recorder.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.Error == nil {
			return
		}
		if said := insides.FindString(response.Error.Message); said != "" {
			t.Fatalf("%q tells %q", response.Error.Message, said)
		}
	})
}

// What is wrong is named, never repeated: an error may be shown to others than its cause. The one exception is the name of
// a tool that there is not, which the specification's own example repeats (Tools, Error Handling); it is cut when it is long.
func TestErrorsDoNotRepeatWhatWasSent(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	const marked = "s3cret-marker"
	for name, tc := range map[string]struct {
		method string
		params map[string]any
		edit   func(*http.Request)
	}{
		"a task":               {"tasks/get", map[string]any{"taskId": marked}, nil},
		"a key of an answer":   {"tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{marked: map[string]any{"action": marked}}}, nil},
		"arguments":            {"tools/call", map[string]any{"name": "tool", "arguments": marked}, nil},
		"a cursor":             {"tools/list", map[string]any{"cursor": marked}, nil},
		"a state":              {"tools/call", map[string]any{"name": "tool", "requestState": marked}, nil},
		"a method":             {marked, nil, nil},
		"a method's header":    {"tools/list", nil, mcptest.Header("Mcp-Method", marked)},
		"a name's header":      {"tools/call", map[string]any{"name": "tool"}, mcptest.Header("Mcp-Name", marked)},
		"a host":               {"tools/list", nil, func(r *http.Request) { r.Host = marked }},
		"an origin":            {"tools/list", nil, mcptest.Header("Origin", "https://"+marked)},
		"a kind of content":    {"tools/list", nil, mcptest.Header("Content-Type", "text/"+marked)},
		"a path":               {"tools/list", nil, func(r *http.Request) { r.URL.Path = "/" + marked }},
		"a path to be cleaned": {"tools/list", nil, func(r *http.Request) { r.URL.Path = "//mcp//" + marked }},
		"a namespace":          {"tools/list", nil, func(r *http.Request) { r.URL.Path = "/mcp/" + marked + "_" }},
		"a session": {"tools/list", nil, func(r *http.Request) {
			mcptest.Header("Mcp-Protocol-Version", "2025-11-25")(r)
			r.Header.Set(sessionHeader, marked)
		}},
		"what is not JSON": {"tools/list", nil, mcptest.Body(marked)},
		"a field":          {"tools/list", nil, mcptest.Body(`{"` + marked + `":1,"` + marked + `":2}`)},
		"a progress token": {"tools/list", map[string]any{"_meta": map[string]any{"progressToken": []string{marked}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []func(*http.Request){}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			response := f.alice.Call(t, tc.method, tc.params, edits...)
			if response.Error == nil && name != "a key of an answer" && name != "a cursor" {
				t.Fatalf("HTTP %d with %s", response.Status, response.Raw)
			}
			if strings.Contains(response.Raw, marked) || insides.MatchString(response.Raw) {
				t.Errorf("HTTP %d with %s", response.Status, response.Raw)
			}
		})
	}
}
