package endpoint

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// endLarge ends a task with a result that stands in two Secrets.
func (f *fixture) endLarge(t *testing.T, s *mcptest.Secrets, id string) {
	t.Helper()
	raw := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", resultsecret.PartBytes) + `"}]}`)
	hash, stored := resultsecret.Hash(raw), f.cluster.stored(id)
	if err := resultsecret.Write(t.Context(), stored, hash, int64(len(raw)), bytes.NewReader(raw), s.StoreSecret); err != nil {
		t.Fatal(err)
	}
	f.cluster.change(t, id, v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: &v1alpha1.TaskResult{
		SHA256: hash, SecretRef: resultsecret.Reference(stored, hash, int64(len(raw)))}})
}

func TestLargeResultsWaitForThoseOfTheSameCaller(t *testing.T) {
	s := &mcptest.Secrets{}
	f := newFixture(t, func(c *Config) { c.Secrets = s })
	f.offer("tool", nil)
	bob := f.alice
	bob.Token = "bob"
	ofAlice, small, ofBob := f.handle(t, "tool"), f.handle(t, "tool"), handleOf(t, f.tool(t, bob, "tool"))
	f.endLarge(t, s, ofAlice)
	f.endLarge(t, s, ofBob)
	alice := caller{"team", v1alpha1.Identity{Issuer: "test", Subject: "alice"}}
	taken, err := f.deliveries.Take(t.Context(), alice, maxDeliveredToCaller)
	if err != nil {
		t.Fatal(err)
	}
	get := func(c mcptest.Client, id string) *mcptest.Response {
		return c.Call(t, "tasks/get", map[string]any{"taskId": id})
	}
	answer, leave := start(t, f.alice, "tasks/get", map[string]any{"taskId": ofAlice})
	defer leave()
	eventually(t, "the request waits", func() bool { return f.deliveries.Users(alice) == 2 }) // there is no room for both
	for name, r := range map[string]*mcptest.Response{"a small one": get(f.alice, small), "another caller's": get(bob, ofBob)} {
		if r.Error != nil {
			t.Errorf("%s: %s", name, r.Raw)
		}
	}
	taken()
	if r := answer(); r.Error != nil || len(r.Raw) < resultsecret.PartBytes {
		t.Errorf("got %.200s", r.Raw)
	}
	eventually(t, "nothing is on its way any more", func() bool { return f.deliveries.Users(alice) == 0 })
}

// A result that cannot be read now is no failure of its task, neither for who asks for it nor for who waits.
func TestAResultThatCannotBeReadNowIsNoFailureOfTheTask(t *testing.T) {
	s := &mcptest.Secrets{}
	f := newFixture(t, func(c *Config) { c.Secrets = s })
	f.offer("tool", nil)
	session := f.legacySession(t, nil)
	id := asTask(t, session, "tool")
	waiting := session.Open(t, "tasks/result", map[string]any{"taskId": id})
	s.Err = errors.New("connection refused")
	f.endLarge(t, s, id)
	if answer := waiting.Next(patience); answer.Error == nil || answer.Error.Code != wire.CodeUnavailable {
		t.Errorf("who waits gets %+v", answer)
	}
	waiting.End(patience)
	failsWith(t, session.Call(t, "tasks/result", map[string]any{"taskId": id}), wire.CodeUnavailable, 503, "try again")
	failsWith(t, f.alice.Call(t, "tasks/get", map[string]any{"taskId": id}), wire.CodeUnavailable, 503, "try again")
}

// Who waits for a result that cannot be read is told where it is, or gets the handle: a new call would do the work once more.
func TestWhoWaitedForAResultThatCannotBeReadKnowsItsTask(t *testing.T) {
	for name, support := range map[string]v1alpha1.TaskSupport{"a caller of a tool without tasks": v1alpha1.TaskSupportForbidden, "a caller with tasks": v1alpha1.TaskSupportOptional} {
		t.Run(name, func(t *testing.T) {
			s := &mcptest.Secrets{}
			f := newFixture(t, func(c *Config) { c.Secrets = s })
			f.offer("tool", waits(support, patience, patience))
			s.Err = errors.New("connection refused")
			answer, leave := start(t, f.alice, "tools/call", map[string]any{"name": "tool"})
			defer leave()
			eventually(t, "there is a task", func() bool { return f.cluster.count() == 1 })
			task := f.cluster.only(t)
			f.endLarge(t, s, task.Name)
			r := answer()
			if support == v1alpha1.TaskSupportOptional {
				if resultType(t, r) != "task" || handleOf(t, r) != task.Name {
					t.Errorf("got %s", r.Raw)
				}
				return
			}
			failsWith(t, r, wire.CodeUnavailable, 200, "kubectl get mcptask "+task.Name+" -n team")
			if !strings.Contains(string(r.Error.Data), `"taskId":"`+task.Name+`"`) || !strings.Contains(r.Error.Message, "once more") {
				t.Errorf("got %s", r.Raw)
			}
		})
	}
}
