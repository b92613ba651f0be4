package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

func newClient(t *testing.T) (*fakebridge.Bridge, *mcpclient.Client) {
	t.Helper()
	bridge := fakebridge.New(t)
	return bridge, mcpclient.New(bridge.URL+"/mcp/default", mcpclient.Options{Tasks: true})
}

func TestDiscover(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("server/discover", fakebridge.Result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"hi"}`))
	found, err := client.Discover(t.Context())
	if err != nil || len(found.SupportedVersions) != 1 || found.Instructions != "hi" || string(found.Capabilities) != `{"tools":{}}` {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestListToolsFollowsCursors(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tools/list",
		fakebridge.Result(`{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}`),
		fakebridge.Result(`{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}`))
	tools, err := client.ListTools(t.Context())
	if err != nil || len(tools) != 2 || tools[0].Name != "a" || tools[1].Name != "b" {
		t.Fatalf("got %+v, %v", tools, err)
	}
	if asked := bridge.Requests("tools/list"); asked[0].Params.Cursor != "" || asked[1].Params.Cursor != "2" {
		t.Errorf("the cursors were %q and %q", asked[0].Params.Cursor, asked[1].Params.Cursor)
	}
}

func TestListToolsRefusesARepeatedCursor(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[],"nextCursor":"again"}`))
	if _, err := client.ListTools(t.Context()); err == nil || !strings.Contains(err.Error(), "again") {
		t.Errorf("got %v", err)
	}
}

func TestCallIsAnsweredWithAResult(t *testing.T) {
	bridge, client := newClient(t)
	const result = `{"resultType":"complete","content":[{"type":"text","text":"hello"}],"structuredContent":{"n":9007199254740993},"isError":true}`
	bridge.On("tools/call", fakebridge.Result(result))
	answer, err := client.CallTool(t.Context(), "greet", json.RawMessage(`{"n":9007199254740993,"s":"<&>"}`), mcpclient.CallOptions{
		ProgressToken: "p1", Meta: map[string]any{"mcptask.dev/idempotencyKey": "k"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := answer.Result
	if answer.Task != nil || !r.IsError || r.Content[0].Text != "hello" || string(r.StructuredContent) != `{"n":9007199254740993}` || string(r.Raw) != result {
		t.Errorf("got %+v", r)
	}
	sent := bridge.Requests("tools/call")[0]
	if string(sent.Params.Arguments) != `{"n":9007199254740993,"s":"<&>"}` || string(sent.Params.Meta.ProgressToken) != `"p1"` || sent.Params.Meta.Key != "k" {
		t.Errorf("sent %+v", sent.Params)
	}
}

func TestCallIsAnsweredWithATask(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tools/call", fakebridge.Result(fakebridge.Task("task", "t1", "working", `"pollIntervalMs":5000`)))
	answer, err := client.CallTool(t.Context(), "slow", nil, mcpclient.CallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if task := answer.Task; answer.Result != nil || task.ID != "t1" || task.Status != mcpclient.Working || task.PollIntervalMs != 5000 ||
		task.TTLMs != nil || task.CreatedAt.IsZero() || len(task.Raw) == 0 {
		t.Errorf("got %+v", task)
	}
	if sent := bridge.Requests("tools/call")[0]; sent.Params.Arguments != nil {
		t.Errorf("sent arguments %s", sent.Params.Arguments)
	}
}

func TestTheExtensionIsDeclaredOnlyWhenWanted(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/call", fakebridge.Result(`{"content":[]}`))
	others := map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
	for _, tasks := range []bool{false, true} {
		client := mcpclient.New(bridge.URL, mcpclient.Options{Tasks: tasks, Capabilities: others})
		if _, err := client.CallTool(t.Context(), "greet", nil, mcpclient.CallOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	sent := bridge.Requests("tools/call")
	for i, want := range []string{
		`{"elicitation":{"form":{}}}`,
		`{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
	} {
		if got := string(sent[i].Params.Meta.Capabilities); got != want {
			t.Errorf("call %d: sent %s, want %s", i, got, want)
		}
	}
}

// The examples of "Value Encoding" in Streamable HTTP.
func TestNamesAreEncodedForTheHeader(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tools/call", fakebridge.Result(`{"content":[]}`))
	for i, c := range []struct{ name, header string }{
		{"us-west1", "us-west1"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
	} {
		if _, err := client.CallTool(t.Context(), c.name, nil, mcpclient.CallOptions{}); err != nil {
			t.Fatalf("%q: %v", c.name, err)
		}
		if got := bridge.Requests("tools/call")[i].Header.Get("Mcp-Name"); got != c.header {
			t.Errorf("%q became %q, want %q", c.name, got, c.header)
		}
	}
}

func TestStream(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tools/call", fakebridge.Stream(func(id json.RawMessage) string {
		return ": waiting\n\n" +
			"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":3,\"total\":10,\"message\":\"three\"}}\n\n" +
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\r\n\r\n" +
			":\r\n\r\n" +
			"id: 7\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":" + string(id) + ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n"
	}))
	var seen []mcpclient.Progress
	answer, err := client.CallTool(t.Context(), "slow", nil, mcpclient.CallOptions{
		ProgressToken: 1, Progress: func(p mcpclient.Progress) { seen = append(seen, p) },
	})
	if err != nil || answer.Result.Content[0].Text != "done" {
		t.Fatalf("got %+v, %v", answer, err)
	}
	if want := (mcpclient.Progress{Progress: 3, Total: 10, Message: "three"}); len(seen) != 1 || seen[0] != want {
		t.Errorf("saw %+v", seen)
	}
}

func TestStreamEndsWithoutAResponse(t *testing.T) {
	bridge, client := newClient(t)
	bridge.On("tools/call", fakebridge.Stream(func(json.RawMessage) string { return ": waiting\n\n" }))
	if _, err := client.CallTool(t.Context(), "slow", nil, mcpclient.CallOptions{}); !errors.Is(err, mcpclient.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	if n := len(bridge.Requests("tools/call")); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer fakebridge.Answer
		code   int64
		status int
		text   string
	}{
		"JSON-RPC":             {fakebridge.Error(400, -32021, "Missing required client capability"), -32021, 400, "tools/call: Missing required client capability (error -32021)"},
		"JSON-RPC in HTTP 200": {fakebridge.Error(200, -32603, "The image cannot be pulled"), -32603, 200, "tools/call: The image cannot be pulled (error -32603)"},
		"plain":                {fakebridge.Plain(502, "<html>bad gateway"), 0, 502, "tools/call: HTTP 502 Bad Gateway"},
		"in a stream": {fakebridge.Stream(func(id json.RawMessage) string {
			return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32603,\"message\":\"gone\"}}\n\n", id)
		}), -32603, 200, "tools/call: gone (error -32603)"},
	} {
		t.Run(name, func(t *testing.T) {
			bridge, client := newClient(t)
			bridge.On("tools/call", c.answer)
			_, err := client.CallTool(t.Context(), "x", nil, mcpclient.CallOptions{})
			var rpc *mcpclient.RPCError
			if !errors.As(err, &rpc) || rpc.Code != c.code || rpc.HTTPStatus != c.status || err.Error() != c.text {
				t.Errorf("got %#v: %v", rpc, err)
			}
		})
	}
}

func TestOddAnswersAreErrors(t *testing.T) {
	for name, answer := range map[string]fakebridge.Answer{
		"a web page": fakebridge.Plain(200, "<html>"),
		"another id": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			fakebridge.Result(`{"content":[]}`)(w, r, json.RawMessage(`99`))
		},
		"an unknown resultType":      fakebridge.Result(`{"resultType":"surprise"}`),
		"questions":                  fakebridge.Result(`{"resultType":"input_required","inputRequests":{}}`),
		"a task without an id":       fakebridge.Result(fakebridge.Task("task", "", "working")),
		"a result that is no object": fakebridge.Result(`[]`),
	} {
		t.Run(name, func(t *testing.T) {
			bridge, client := newClient(t)
			bridge.On("tools/call", answer)
			if answer, err := client.CallTool(t.Context(), "x", nil, mcpclient.CallOptions{}); err == nil {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

func TestToken(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[]}`))
	token, failure := "secret", error(nil)
	client := mcpclient.New(bridge.URL, mcpclient.Options{Token: func(context.Context) (string, error) { return token, failure }})
	if _, err := client.ListTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	token = ""
	if _, err := client.ListTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := bridge.Requests("tools/list")
	if got := sent[0].Header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("sent %q", got)
	}
	if got, ok := sent[1].Header["Authorization"]; ok {
		t.Errorf("sent %q without a token", got)
	}
	failure = errors.New("no token to be had")
	if _, err := client.ListTools(t.Context()); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
