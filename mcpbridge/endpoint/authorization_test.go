package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// refusing identifies nobody, for one reason.
type refusing struct{ err error }

func (r refusing) Authenticate(context.Context, auth.Request) (auth.Principal, error) {
	return auth.Principal{}, r.err
}

const issuer = "https://issuer.example.com"

func TestCallersAreToldHowToGetIn(t *testing.T) {
	const metadata = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp/team", scope="mcp:call mcp:tasks"`
	for name, tc := range map[string]struct {
		err    error
		status int
		want   string
	}{
		"no credentials":  {auth.ErrNoCredentials, 401, `Bearer ` + metadata},
		"bad credentials": {auth.Refused("the token has expired"), 401, `Bearer error="invalid_token", ` + metadata},
		"too few scopes":  {auth.ErrScope, 403, `Bearer error="insufficient_scope", ` + metadata},
		"an outage":       {fmt.Errorf("%w: x", auth.ErrUnavailable), 503, ""},
		"an odd error":    {fmt.Errorf("x"), 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) {
				c.Authenticator, c.AuthorizationServers, c.Scopes = refusing{tc.err}, []string{issuer}, []string{"mcp:call", "mcp:tasks"}
			})
			response := f.alice.Call(t, "tools/list", nil)
			if response.Status != tc.status || response.Header.Get("WWW-Authenticate") != tc.want || response.Error == nil {
				t.Errorf("HTTP %d, %q, %s", response.Status, response.Header.Get("WWW-Authenticate"), response.Raw)
			}
			if strings.Contains(response.Raw, "expired") {
				t.Errorf("the answer says too much: %s", response.Raw)
			}
			if tc.status != 503 && !strings.Contains(f.log.String(), `"outcome":"denied","why":"`+tc.err.Error()+`"`) {
				t.Errorf("the log does not say why: %s", f.log.String())
			}
		})
	}
	f := newFixture(t, nil) // no issuer: there is nowhere to send callers
	if got := f.alice.Call(t, "tools/list", nil, mcptest.Header("Authorization", "")).Header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("without issuers: %q", got)
	}
}

func TestATokenInTheURLIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	client := f.alice
	client.URL += "?access_token=SECRET"
	response := client.Call(t, "tools/list", nil)
	failsWith(t, response, -32600, 400, "Authorization header")
	if !strings.Contains(response.Header.Get("WWW-Authenticate"), `error="invalid_request"`) || strings.Contains(response.Raw+f.log.String(), "SECRET") {
		t.Errorf("%v, %s, %s", response.Header, response.Raw, f.log.String())
	}
}

func TestEveryEndpointDescribesItself(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.PublicURL, c.AuthorizationServers, c.Scopes = "https://example.com/agents", []string{issuer, "https://other.example.com"}, []string{"mcp:call"}
		c.Namespaces, c.AllowedHosts = []string{"team", "second"}, []string{"127.0.0.1"}
	})
	base := strings.TrimSuffix(f.alice.URL, "/mcp/team")
	get := func(method, path string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Origin", "https://inspector.example.com")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	for _, prefix := range []string{"", "/agents"} {
		for path, resource := range map[string]string{
			"/mcp/team": "https://example.com/agents/mcp/team", "/mcp/second": "https://example.com/agents/mcp/second", "/mcp": "https://example.com/agents/mcp",
		} {
			response := get(http.MethodGet, "/.well-known/oauth-protected-resource"+prefix+path)
			var metadata oauthex.ProtectedResourceMetadata
			if err := json.NewDecoder(response.Body).Decode(&metadata); err != nil || response.StatusCode != 200 {
				t.Fatalf("%s: HTTP %d, %v", path, response.StatusCode, err)
			}
			if metadata.Resource != resource || fmt.Sprint(metadata.AuthorizationServers) != "["+issuer+" https://other.example.com]" ||
				fmt.Sprint(metadata.ScopesSupported) != "[mcp:call]" || fmt.Sprint(metadata.BearerMethodsSupported) != "[header]" {
				t.Errorf("%s: %+v", path, metadata)
			}
			if !strings.Contains(response.Header.Get("Cache-Control"), "max-age") || response.Header.Get("Access-Control-Allow-Origin") != "*" ||
				response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v", path, response.Header)
			}
		}
	}
	for _, path := range []string{"", "/", "/mcp/third", "/mcp/No_Namespace", "/mcp/team/more", "/other/mcp/team"} {
		if response := get(http.MethodGet, "/.well-known/oauth-protected-resource"+path); response.StatusCode != 404 {
			t.Errorf("%q: HTTP %d", path, response.StatusCode)
		}
	}
	if response := get(http.MethodPost, "/.well-known/oauth-protected-resource/mcp/team"); response.StatusCode != 405 {
		t.Errorf("POST: HTTP %d", response.StatusCode)
	}
	// What the challenge names is where the metadata is.
	challenge := f.alice.Call(t, "tools/list", nil, mcptest.Header("Authorization", "")).Header.Get("WWW-Authenticate")
	if !strings.Contains(challenge, `"https://example.com/.well-known/oauth-protected-resource/agents/mcp/team"`) {
		t.Errorf("the challenge is %s", challenge)
	}
	without := newFixture(t, nil)
	base = strings.TrimSuffix(without.alice.URL, "/mcp/team")
	if response := get(http.MethodGet, "/.well-known/oauth-protected-resource/mcp/team"); response.StatusCode != 404 {
		t.Errorf("without issuers: HTTP %d", response.StatusCode)
	}
}

// rights are the tools that each caller may call; "" is all of them.
type rights map[string][]string

func (r rights) MayCall(_ context.Context, caller auth.Principal, namespace, tool string) (bool, error) {
	if caller.Subject == "outage" {
		return false, fmt.Errorf("%w: secret-host.internal", auth.ErrUnavailable)
	}
	for _, may := range r[caller.Subject] {
		if may == "" || may == tool {
			return namespace == "team", nil
		}
	}
	return false, nil
}

// everyName is a source of identities that takes every token for its caller's name.
type everyName struct{}

func (everyName) Authenticate(_ context.Context, r auth.Request) (auth.Principal, error) {
	token, _ := auth.Bearer(r.Header)
	return auth.Principal{Identity: v1alpha1.Identity{Issuer: "test", Subject: token}}, nil
}

func TestCallersSeeAndCallWhatTheyMay(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Authenticator = everyName{}
		c.Access = rights{"alice": {""}, "bob": {"pay-object", "third"}, "dave": {"gone"}}
	})
	f.offer("crawl", func(s *v1alpha1.McpToolSpec) {
		waits(v1alpha1.TaskSupportOptional, 0, 0)(s) // a call without a task is answered at once
		s.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)}
	})
	f.offer("pay-object", func(s *v1alpha1.McpToolSpec) {
		waits(v1alpha1.TaskSupportOptional, 0, 0)(s)
		s.Name = "pay"
	})
	f.offer("third", waits(v1alpha1.TaskSupportRequired, 0, 0))
	for caller, want := range map[string]string{"alice": "[crawl pay third]", "bob": "[pay third]", "carol": "[]", "dave": "[]"} {
		client := f.alice
		client.Token = caller
		session := client.Initialize(t, mcptest.LegacyVersion, nil)
		for era, response := range map[string]*mcptest.Response{"modern": client.Call(t, "tools/list", nil), "legacy": session.Call(t, "tools/list", nil)} {
			var list struct {
				Tools      []struct{ Name string }
				CacheScope string
			}
			if err := json.Unmarshal(response.Result, &list); err != nil {
				t.Fatalf("%v in %s", err, response.Raw)
			}
			listed := []string{}
			for _, tool := range list.Tools {
				listed = append(listed, tool.Name)
			}
			if fmt.Sprint(listed) != want || era == "modern" && list.CacheScope != "private" || !strings.Contains(response.Raw, `"tools":[`) {
				t.Errorf("%s, %s: %s", caller, era, response.Raw)
			}
		}
		for _, tool := range []string{"crawl", "pay", "third"} {
			may := strings.Contains(want, tool)
			none := "x" + tool[1:] // as long, and never there
			params := func(name string) map[string]any {
				return map[string]any{"name": name, "arguments": map[string]any{"region": "eu"}} // without the header that crawl asks for
			}
			mine, nobodys := client.Call(t, "tools/call", params(tool)), client.Call(t, "tools/call", params(none))
			if !may && strings.ReplaceAll(mine.Raw, tool, none) != nobodys.Raw || !may && mine.Status != nobodys.Status {
				t.Errorf("%s and %s: %s\nof no tool: %s", caller, tool, mine.Raw, nobodys.Raw)
			}
			if strings.Contains(mine.Raw, "Unknown tool") == may {
				t.Errorf("%s and %s: %s", caller, tool, mine.Raw)
			}
			old, unknown := session.Call(t, "tools/call", params(tool)), session.Call(t, "tools/call", params(none))
			if !may && strings.ReplaceAll(old.Raw, tool, none) != unknown.Raw {
				t.Errorf("%s and %s, legacy: %s\nof no tool: %s", caller, tool, old.Raw, unknown.Raw)
			}
			if !may && !strings.Contains(f.log.String(), `"why":"may not call the tool","issuer":"test","subject":"`+caller+`"`) {
				t.Errorf("the log does not say that %s tried %s", caller, tool)
			}
		}
	}
	for _, task := range f.cluster.all() {
		if owner := task.Spec.Owner.Subject; owner != "alice" && owner != "bob" || owner == "bob" && task.Spec.ToolName == "crawl" {
			t.Errorf("%s made a task of %s", owner, task.Spec.ToolName)
		}
	}
	down := f.alice
	down.Token = "outage"
	for method, params := range map[string]map[string]any{"tools/list": nil, "tools/call": {"name": "pay"}} {
		if response := down.Call(t, method, params); response.Error == nil || response.Error.Code != -32603 || strings.Contains(response.Raw, "secret-host") {
			t.Errorf("%s: %s", method, response.Raw)
		}
	}
}

// counting counts the questions who may call what.
type counting struct {
	rights
	asked atomic.Int64
}

func (c *counting) MayCall(ctx context.Context, caller auth.Principal, namespace, tool string) (bool, error) {
	c.asked.Add(1)
	return c.rights.MayCall(ctx, caller, namespace, tool)
}

func TestAFloodOfToolsThatNobodyOffersAsksTheClusterLittle(t *testing.T) {
	access := &counting{rights: rights{"alice": {""}, "mallory": {"pay"}}}
	f := newFixture(t, func(c *Config) { c.Authenticator, c.Access = everyName{}, access })
	f.offer("crawl", waits(v1alpha1.TaskSupportOptional, 0, 0))
	f.offer("pay", waits(v1alpha1.TaskSupportOptional, 0, 0))
	mallory := f.alice
	mallory.Token = "mallory"
	for name, of := range map[string]func(int) string{
		"no tools":         func(i int) string { return fmt.Sprintf("tool-%d", i) },
		"a tool of others": func(int) string { return "crawl" },
	} {
		const calls = 300 // at once: more than any machine is given new tokens for meanwhile
		before := access.asked.Load()
		var refused atomic.Int64
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				response := mallory.Call(t, "tools/call", map[string]any{"name": of(i), "arguments": map[string]any{}})
				if response.Error != nil && response.Error.Code == 429 {
					failsWith(t, response, 429, 200, "tools/list says which")
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if asked := access.asked.Load() - before; refused.Load() == 0 || asked+refused.Load() != calls {
			t.Errorf("%s: of %d calls %d were refused, and %d asked the cluster", name, calls, refused.Load(), asked)
		}
	}
	f.alice.Token = "alice"
	if response := f.alice.Call(t, "tools/call", map[string]any{"name": "crawl", "arguments": map[string]any{}}); response.Error != nil {
		t.Errorf("another caller is held up: %s", response.Raw)
	}
}
