package endpoint

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// Whatever stands in a session id, a body or a cursor, the endpoint answers, and stores nothing but an answer that fits.
func FuzzLegacy(f *testing.F) {
	fixture := newFixture(f, nil)
	fixture.offer("tool", nil)
	s := fixture.legacySession(f, forms)
	known := asTask(f, s, "tool")
	fixture.cluster.change(f, known, asks(question("a-1")))
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":"mcptask/` + known + `/a-1","result":{"action":"accept","content":{"amount":"x"}}}`,
		`{"jsonrpc":"2.0","id":"mcptask/` + known + `/a-1","result":{"action":"decline","_meta":7}}`,
		`{"jsonrpc":"2.0","id":"mcptask/` + known + `/","error":{"code":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{"cursor":"AAAA"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + s.ID + `"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","task":{"ttl":1e999}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + known + `","_meta":null}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add(s.ID, seed)
		f.Add("", seed)
		f.Add(strings.ToUpper(s.ID), seed)
		f.Add(s.ID[:len(s.ID)/2], seed)
	}
	f.Fuzz(func(t *testing.T, id, body string) {
		if strings.Contains(body, `tools/call`) || strings.Contains(body, `tasks/result`) { // they wait
			return
		}
		request := httptest.NewRequest(http.MethodPost, "/mcp/team", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("Authorization", "Bearer alice")
		request.Header.Set("Mcp-Protocol-Version", mcptest.LegacyVersion)
		request.Header.Set("Mcp-Session-Id", id)
		recorder := httptest.NewRecorder()
		fixture.ServeHTTP(recorder, request)
		if recorder.Code >= 500 || strings.Contains(recorder.Body.String(), "errorId") {
			t.Fatalf("HTTP %d with %s", recorder.Code, recorder.Body)
		}
		if recorder.Code == http.StatusAccepted && recorder.Body.Len() > 0 {
			t.Fatalf("an acceptance with a body: %s", recorder.Body)
		}
		if recorder.Code != http.StatusAccepted {
			if _, err := mcptest.Read(recorder.Code, recorder.Header(), recorder.Body); err != nil {
				t.Fatal(err)
			}
		}
	})
}
