package endpoint

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc"
	"github.com/mcptask/mcptask/mcpbridge/auth/oidc/oidctest"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// people are callers of every source of identities: the name of each is what it shows as a token.
type people struct {
	sources auth.Sources
	tokens  map[string]string
}

// newPeople has, among others, two issuers with a caller of the same name, and two callers of one OAuth client.
func newPeople(t *testing.T) *people {
	p := &people{sources: auth.Sources{Issuers: map[string]auth.Authenticator{}, Cluster: names{}, Keys: names{}, Anonymous: true}, tokens: map[string]string{
		"a service account": "alice", "another service account": "bob", "an API key": auth.KeyPrefix + "alice", "nobody in particular": "",
	}}
	client := map[string]any{"client_id": "client", "azp": "client"}
	for prefix, callers := range map[string][]string{"one:": {"alice", "bob"}, "two:": {"alice"}} {
		provider := oidctest.New(t)
		configs := []oidc.Config{{Issuer: provider.URL, UserPrefix: prefix, GroupsPrefix: prefix, CertificateAuthority: provider.CertificateAuthority}}
		if err := oidc.Check(configs); err != nil {
			t.Fatal(err)
		}
		p.sources.Issuers[provider.URL] = oidc.New(configs[0], nil, slog.New(slog.DiscardHandler))
		for _, caller := range callers {
			p.tokens[caller+" of issuer "+prefix] = provider.Token(t, caller, "https://mcp.example.com/mcp/team", client)
		}
	}
	return p
}

// attempt uses a method on a task, on behalf of a caller. Its answer must not depend on whether the task is somebody
// else's or was never there; touches says whether it is the caller's.
type attempt func(t *testing.T, f *fixture, caller mcptest.Client, task string) (answer string, touches bool)

// modernAttempts and legacyAttempts have one for each method that there is, and for each thing that is no method.
var modernAttempts = map[string]attempt{
	"server/discover": calls("server/discover"),
	"tools/list":      calls("tools/list"),
	"tools/call": func(t *testing.T, f *fixture, caller mcptest.Client, task string) (string, bool) {
		// A call names a task only by the state that it carries, which is sealed.
		response := caller.Call(t, "tools/call", map[string]any{"name": "tool", "requestState": task})
		return strip(response, task), response.Error == nil
	},
	"tasks/get":    calls("tasks/get"),
	"tasks/update": calls("tasks/update"),
	"tasks/cancel": calls("tasks/cancel"),
	"subscriptions/listen": func(t *testing.T, f *fixture, caller mcptest.Client, task string) (string, bool) {
		s := caller.Open(t, "subscriptions/listen", taskIDs(task))
		raw := string(s.Next(patience).Params)
		return strings.ReplaceAll(raw, task, "TASK"), strings.Contains(raw, task)
	},
}

var legacyAttempts = map[string]attempt{
	"initialize":   inSession("initialize"),
	"ping":         inSession("ping"),
	"tools/list":   inSession("tools/list"),
	"tools/call":   inSession("tools/call"),
	"tasks/get":    inSession("tasks/get"),
	"tasks/list":   inSession("tasks/list"),
	"tasks/result": inSession("tasks/result"),
	"tasks/cancel": inSession("tasks/cancel"),
	"a response": func(t *testing.T, f *fixture, caller mcptest.Client, task string) (string, bool) {
		session := caller.Initialize(t, mcptest.LegacyVersion, forms)
		response := session.Respond(t, json.RawMessage(`"mcptask/`+task+`/a-1"`), accept(`{"amount":3}`), nil)
		return strip(response, task), response.Status == http.StatusAccepted
	},
	"GET": func(t *testing.T, f *fixture, caller mcptest.Client, task string) (string, bool) {
		session := caller.Initialize(t, mcptest.LegacyVersion, forms)
		s := session.Listen(t)
		s.Comment(patience) // it is open, and shows what this session was given: nothing
		return "", false
	},
}

func calls(method string) attempt {
	return func(t *testing.T, f *fixture, caller mcptest.Client, task string) (string, bool) {
		response := caller.Call(t, method, map[string]any{"taskId": task, "inputResponses": map[string]any{"a-1": accept(`{"amount":3}`)}})
		return strip(response, task), response.Error == nil && strings.HasPrefix(method, "tasks/")
	}
}

func inSession(method string) attempt {
	return func(t *testing.T, f *fixture, caller mcptest.Client, task string) (string, bool) {
		session := caller.Initialize(t, mcptest.LegacyVersion, nil)
		params := map[string]any{"taskId": task, "name": "none"}
		if method == "initialize" {
			params["protocolVersion"], params["capabilities"] = mcptest.LegacyVersion, map[string]any{}
		}
		response := session.Call(t, method, params)
		touches := response.Error == nil && strings.HasPrefix(method, "tasks/")
		if method == "tasks/list" {
			touches = strings.Contains(response.Raw, task)
		}
		return strip(response, task), touches
	}
}

// strip leaves of an answer what may not depend on the task.
func strip(response *mcptest.Response, task string) string {
	return http.StatusText(response.Status) + " " + strings.ReplaceAll(response.Raw, task, "TASK")
}

// Whoever calls which method on whose task: the owner reaches it, and everybody else is told what is said of a task that
// never was. The methods are those of the tables: one that is new has no attempt here, and fails.
func TestEveryMethodKeepsStrangersOut(t *testing.T) {
	legacyTable := legacyMethods()
	legacyTable["GET"], legacyTable["a response"] = streamRule, responseRule
	for era, tables := range map[string]struct {
		rules    map[string]rule
		attempts map[string]attempt
	}{"2026-07-28": {methods(), modernAttempts}, "2025-11-25": {legacyTable, legacyAttempts}} {
		for _, method := range slices.Sorted(maps.Keys(tables.rules)) {
			try, ok := tables.attempts[method]
			if !ok {
				t.Errorf("%s of %s: nothing tests that it keeps strangers out", method, era)
				continue
			}
			t.Run(era+"/"+strings.ReplaceAll(method, "/", "-"), func(t *testing.T) {
				people := newPeople(t)
				f := newFixture(t, func(c *Config) { c.Authenticator = people.sources })
				f.offer("tool", nil)
				for owner, ownerToken := range people.tokens {
					for caller, callerToken := range people.tokens {
						f.alice.Token = ownerToken
						task := f.handle(t, "tool")
						f.cluster.change(t, task, asks(question("a-1")))
						before := f.cluster.stored(task).ResourceVersion
						client := f.alice
						client.Token = callerToken
						client.Elicitation = []string{"form"}
						if method == "tasks/result" && owner == caller {
							f.cluster.change(t, task, completed(`{"content":[]}`)) // else it would wait
						}
						answer, touches := try(t, f, client, task)
						if owner == caller {
							about := tables.rules[method].object
							if reaches := about == ownTask || method == "tasks/list" || method == "subscriptions/listen"; touches != reaches && !(method == "tasks/list" && caller == "nobody in particular") {
								t.Errorf("%s: the own task is reached: %v, with %s", owner, touches, answer)
							}
							continue
						}
						if nobody, _ := try(t, f, client, v1alpha1.NewTaskID()); touches || answer != nobody {
							t.Errorf("%s on a task of %s: %s\nof no task: %s", caller, owner, answer, nobody)
						}
						if now := f.cluster.stored(task); now.ResourceVersion != before || now.Spec.Cancel != nil || len(now.Spec.InputResponses) > 0 {
							t.Errorf("%s changed the task of %s", caller, owner)
						}
					}
				}
				for name, token := range people.tokens {
					if log := f.log.String(); token != "" && strings.Contains(token, ".") && strings.Contains(log, token) {
						t.Errorf("the token of %s is in the log", name)
					}
				}
			})
		}
	}
}

// A stranger who asks for a task that is there costs what one costs who asks for nothing: as many look-ups, and as many
// until the caller is slowed down. Else the time, or the limit, would tell the two apart.
func TestAStrangersQuestionCostsWhatAWrongOneCosts(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := make([]string, 60)
	for i := range known {
		known[i] = f.handle(t, "tool")
	}
	ask := func(token string, id func(int) string) (statuses []int, reads int) {
		client := f.alice
		client.Token = token
		before := f.cluster.readCount()
		for i := range known {
			statuses = append(statuses, client.Call(t, "tasks/get", map[string]any{"taskId": id(i)}).Status)
		}
		return statuses, f.cluster.readCount() - before
	}
	theirs, reads := ask("bob", func(i int) string { return known[i] })
	nobodys, asMany := ask("carol", func(int) string { return v1alpha1.NewTaskID() })
	count := func(statuses []int, status int) (n int) {
		for _, s := range statuses {
			if s == status {
				n++
			}
		}
		return n
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusTooManyRequests} {
		if a, b := count(theirs, status), count(nobodys, status); a == 0 || b == 0 || max(a-b, b-a) > 5 { // the limit refills as time passes
			t.Errorf("HTTP %d: %d times for tasks of somebody else, %d times for none", status, a, b)
		}
	}
	if max(reads-asMany, asMany-reads) > 5 || reads < 30 {
		t.Errorf("%d look-ups for tasks of somebody else, %d for none", reads, asMany)
	}

	again := f.alice
	again.Token = "dave"
	for _, id := range []string{f.handle(t, "tool"), v1alpha1.NewTaskID()} {
		before := f.cluster.readCount()
		for range 3 { // within a second
			failsWith(t, again.Call(t, "tasks/get", map[string]any{"taskId": id}), -32602, 400, "Unknown task")
		}
		if n := f.cluster.readCount() - before; n != 1 {
			t.Errorf("%d look-ups for the same question again", n)
		}
	}
	before := f.cluster.readCount()
	start := time.Now()
	if response := f.alice.Call(t, "tasks/get", map[string]any{"taskId": known[0]}); response.Error != nil || f.cluster.readCount() != before {
		t.Errorf("the owner, %s later: %s", time.Since(start), response.Raw)
	}
}
