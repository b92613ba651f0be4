package endpoint

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// FuzzHeaders: whatever a request says of where it comes from, of its body and of its caller, nobody is served but by a name
// that is known and with credentials that are good, and the bridge has no error of its own.
func FuzzHeaders(f *testing.F) {
	fixture := newFixture(f, func(c *Config) {
		c.AuthorizationServers, c.Scopes = []string{issuer}, []string{"mcp:tools"}
		c.AllowedHosts = []string{"bridge.team.svc"}
	})
	fixture.offer("tool", nil)
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, seed := range [][8]string{
		{"POST", "/mcp/team", "mcp.example.com", "", "application/json", "application/json, text/event-stream", "Bearer alice", ""},
		{"POST", "/mcp/team", "mcp.example.com:443", "https://mcp.example.com", "application/json; charset=utf-8", "*/*", "bearer alice", "10.0.0.1"},
		{"POST", "/mcp/team", "evil.example.com", "https://evil.example.com", "text/plain", "", "Bearer alice", "mcp.example.com"},
		{"POST", "/mcp/team?access_token=x", "127.0.0.1:80", "null", "application/json", "application/json;q=0", "", ""},
		{"GET", "/.well-known/oauth-protected-resource/mcp/team", "[::1]:8080", "", "", "", "", ""},
		{"GET", "/mcp/team", "localhost", "", "", "text/event-stream", "Basic YTpi", ""},
		{"DELETE", "/mcp/team", "bridge.team.svc.", "http://[::1", "application/json", "text/event-stream", "Bearer unknown", ""},
		{"OPTIONS", "*", "", "", "", "", "Bearer  alice", "for=\"[::1]\""},
		{"POST", "/mcp/other/../team", "mcp.example.com@evil.example.com", "//mcp.example.com", "application/json;application/json", "\x00", "Bearer alice\r\nX: y", ","},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], seed[6], seed[7])
	}
	f.Fuzz(func(t *testing.T, method, path, host, origin, kind, accept, authorization, forwarded string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		request.Method, request.Host = method, host
		request.URL.Path, request.URL.RawQuery, _ = strings.Cut(path, "?")
		request.Header = http.Header{"Content-Type": {kind}, "Accept": {accept}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"},
			"X-Forwarded-Host": {forwarded}, "X-Forwarded-For": {forwarded}, "Forwarded": {forwarded}}
		for name, value := range map[string]string{"Origin": origin, "Authorization": authorization} {
			if value != "" {
				request.Header[name] = []string{value}
			}
		}
		recorder := httptest.NewRecorder()
		fixture.ServeHTTP(recorder, request)
		answer := recorder.Body.String()
		if recorder.Code >= 500 || strings.Contains(answer, "errorId") {
			t.Fatalf("HTTP %d with %s", recorder.Code, answer)
		}
		if recorder.Code != http.StatusOK || strings.Contains(answer, `"resource":`) {
			return
		}
		response, err := mcptest.Read(recorder.Code, recorder.Header(), recorder.Body)
		if err != nil || response.Error != nil {
			return
		}
		if name, ok := strings.CutPrefix(authorization, "Bearer "); !ok || name == "unknown" {
			t.Fatalf("%q is served: %s", authorization, answer)
		}
		if !fixture.hosts.allow(host) || strings.Contains(path, "access_token") {
			t.Fatalf("%s at %q is served: %s", path, host, answer)
		}
	})
}
