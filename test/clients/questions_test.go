//go:build e2e

package clients

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var (
	accept  = input{"action": "accept", "content": input{"confirm": true}}
	decline = input{"action": "decline"}
)

const deleteIt = "Delete notes.txt?"

// callers are all, each in each of its ways.
var callers = slices.Concat(callersWithTasks, callersWithoutTasks)

func TestOneQuestion(t *testing.T) {
	for _, c := range callers {
		t.Run(c.name+" "+c.script, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "confirm")
			saw := c.call(t, s.url, input{
				"tool": "confirm", "arguments": input{"file": "notes.txt"}, "answers": input{deleteIt: accept},
			})
			if !slices.Equal(saw.questions(), []string{deleteIt}) || saw.Result == nil || saw.Result.IsError {
				t.Fatalf("got %+v", saw)
			}
			var got struct {
				Action  string
				Content struct{ Confirm bool }
			}
			if err := json.Unmarshal(saw.Result.StructuredContent, &got); err != nil || got.Action != "accept" || !got.Content.Confirm {
				t.Errorf("the work got %s, %v", saw.Result.StructuredContent, err)
			}
			stored := s.awaitStored(t, s.one(t).Name, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
			s.checkAnswers(t, stored, 1)
			if saw.Kind != "task" {
				return
			}
			if saw.TaskID != stored.Name || saw.Asked[0].TaskID != stored.Name {
				t.Errorf("the call became %s, the question belongs to %s", saw.TaskID, saw.Asked[0].TaskID)
			}
		})
	}
}

func TestQuestionThatIsDeclined(t *testing.T) {
	for _, c := range callers {
		t.Run(c.name+" "+c.script, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "confirm")
			saw := c.call(t, s.url, input{
				"tool": "confirm", "arguments": input{"file": "notes.txt"}, "answers": input{deleteIt: decline},
			})
			if !slices.Equal(saw.questions(), []string{deleteIt}) {
				t.Errorf("asked %v", saw.Asked)
			}
			// The tool of this test ends with exit code 3 then, and says why.
			if c.shipped == extLegacy {
				if saw.Outcome != "failed" || saw.Error == nil || !strings.Contains(saw.Error.Message, "exit code 3") {
					t.Errorf("got %+v", saw)
				}
			} else if saw.Result == nil || !saw.Result.IsError || !strings.Contains(saw.Result.text(), "exit code 3") {
				t.Errorf("got %+v", saw)
			}
			s.checkAnswers(t, s.awaitStored(t, s.one(t).Name, v1alpha1.TaskCompleted, v1alpha1.ReasonToolError), 1)
		})
	}
}

func TestTwoQuestions(t *testing.T) {
	answers := input{
		"What is it called?": input{"action": "accept", "content": input{"name": "Alice"}},
		"Shall it be done?":  accept,
	}
	for _, c := range callers {
		t.Run(c.name+" "+c.script, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "register")
			saw := c.call(t, s.url, input{"tool": "register", "answers": answers})
			if len(saw.questions()) != 2 || saw.Result == nil || saw.Result.IsError || !strings.Contains(saw.Result.text(), "Alice") {
				t.Errorf("got %+v", saw)
			}
			s.checkAnswers(t, s.awaitStored(t, s.one(t).Name, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded), 2)
		})
	}
}

// checkAnswers checks that the questions were answered, each once, by the agent.
func (s *site) checkAnswers(t *testing.T, task *v1alpha1.McpTask, questions int) {
	t.Helper()
	if len(task.Status.InputRequests) != questions || len(task.Spec.InputResponses) != questions {
		t.Errorf("%d questions and %d answers are stored, want %d", len(task.Status.InputRequests), len(task.Spec.InputResponses), questions)
	}
	for _, asked := range task.Status.InputRequests {
		if !asked.Answered {
			t.Errorf("the question %s is not marked as answered", asked.Key)
		}
	}
	for _, answer := range task.Spec.InputResponses {
		if by := answer.AnsweredBy; by == nil || !strings.Contains(by.Principal, s.agent()) || by.Via != "mcp" || answer.AnsweredAt == nil {
			t.Errorf("the answer to %s was given by %+v at %v", answer.Key, by, answer.AnsweredAt)
		}
	}
}

// A client that is asked about a task it does not know answers that its user has cancelled. So only the session that was
// given the handle may be asked, whoever else is connected as the same agent.
func TestOnlyTheSessionWithTheHandleIsAsked(t *testing.T) {
	s := newSite(t, "confirm")
	bystander := extLegacy.start(t, s.url, "idle", nil)
	bystander.ready()
	saw := extLegacy.run(t, s.url, "call", input{
		"tool": "confirm", "arguments": input{"file": "notes.txt"}, "answers": input{deleteIt: accept},
	})
	if saw.Outcome != "completed" || len(saw.Asked) != 1 || !strings.Contains(string(saw.Result.StructuredContent), `"accept"`) {
		t.Errorf("got %+v", saw)
	}
	if idle := bystander.end(); len(idle.Asked) != 0 {
		t.Errorf("the bystander was asked %v", idle.Asked)
	}
	s.checkAnswers(t, s.one(t), 1)
}

// A user who takes a while to answer is asked once, although a client of 2025-11-25 has two streams on which it may be asked,
// and they may be at different replicas.
func TestUserIsAskedOnce(t *testing.T) {
	for _, c := range callers {
		t.Run(c.name+" "+c.script, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "confirm")
			apart := s.path(s.cluster.Routed(t, s.token(t), func(r *http.Request) int { return len(r.Method) })) // GET or POST
			saw := c.call(t, apart, input{
				"tool": "confirm", "arguments": input{"file": "notes.txt"}, "answers": input{deleteIt: accept}, "thinks": 3000,
			})
			if len(saw.Asked) != 1 {
				t.Errorf("the user was asked %v", saw.Asked)
			}
			s.checkAnswers(t, s.awaitStored(t, s.one(t).Name, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded), 1)
		})
	}
}

// What a tool asks before its task exists is answered with the call itself. Older clients have no such way: they are told
// which argument is missing.
func TestQuestionBeforeThereIsATask(t *testing.T) {
	s := newSite(t, "greet")
	answers := input{"What is your name?": input{"action": "accept", "content": input{"name": "Alice"}}}
	for _, c := range []caller{{extModern, "call"}, {plainModern, "call"}, {plainLegacy, "call"}, {sdkLegacy, "call"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.call(t, s.url, input{"tool": "greet", "answers": answers})
			if c.era == legacy {
				if saw.Error == nil || saw.Error.Code != -32602 || !strings.Contains(saw.Error.Message, "user_name") {
					t.Errorf("got %+v", saw)
				}
				return
			}
			if len(saw.Asked) != 1 || saw.Result == nil || saw.Result.IsError || !strings.Contains(saw.Result.text(), "Alice") {
				t.Errorf("got %+v", saw)
			}
			if saw.Kind == "task" && saw.Asked[0].Delivery != "request-retry" {
				t.Errorf("asked by %s", saw.Asked[0].Delivery)
			}
		})
	}
}
