//go:build e2e

package clients

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestHandlePollResult(t *testing.T) {
	s := newSite(t, "compute")
	for _, c := range callersWithTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.call(t, s.url, input{"tool": "compute", "arguments": input{"label": c.prefix, "seconds": 1}})
			if saw.Kind != "task" || saw.Outcome != "completed" || !strings.Contains(saw.Result.text(), "computed "+c.prefix+" in 1 s") {
				t.Errorf("got %+v", saw)
			}
			if len(saw.States) != 2 || saw.States[0] != "working" || saw.States[1] != "completed" {
				t.Errorf("the client saw the states %v", saw.States)
			}
			s.awaitStored(t, saw.TaskID, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		})
	}
}

// What is asked for is capped at the tool's maximum, and the answer says so.
func TestLifeThatIsAskedFor(t *testing.T) {
	s := newSite(t, "compute")
	for asked, got := range map[int64]time.Duration{60_000: time.Minute, 10 * 365 * 24 * 3600_000: 2 * time.Hour} {
		saw := sdkLegacy.run(t, s.url, "call", input{"tool": "compute", "ttl": asked})
		if stored := s.stored(t, saw.TaskID); stored.Spec.TTL == nil || stored.Spec.TTL.Duration != got {
			t.Errorf("asked for %d ms: the task has %v, want %v", asked, stored.Spec.TTL, got)
		}
		if saw.TTL == nil || *saw.TTL != got.Milliseconds() {
			t.Errorf("asked for %d ms: the client was told %v", asked, saw.TTL)
		}
	}
}

// A tool that ran and failed has completed in one era and failed in the other; its output reaches the client in both.
func TestToolThatFails(t *testing.T) {
	s := newSite(t, "fails")
	for _, c := range callersWithTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.call(t, s.url, input{"tool": "fails"})
			s.awaitStored(t, saw.TaskID, v1alpha1.TaskCompleted, v1alpha1.ReasonToolError)
			words := saw.Result.text()
			switch c.shipped {
			case extModern:
				if saw.Outcome != "completed" || saw.Error != nil {
					t.Errorf("got %+v", saw)
				}
			case extLegacy: // takes the status message for all there is to know
				if saw.Outcome != "failed" || saw.Error == nil {
					t.Fatalf("got %+v", saw)
				}
				words = saw.Error.Message
			case sdkLegacy:
				if saw.Outcome != "failed" || saw.Result == nil {
					t.Errorf("got %+v", saw)
				}
			}
			if saw.Result != nil && !saw.Result.IsError {
				t.Error("the result is not marked as an error")
			}
			if !strings.Contains(words, "exit code 3") || !strings.Contains(words, "no such host") {
				t.Errorf("the client was told %q", words)
			}
		})
	}
}

func TestErrorThatTheWorkHandsOver(t *testing.T) {
	s := newSite(t, "gives-up")
	for _, c := range callersWithTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.call(t, s.url, input{"tool": "gives-up"})
			if saw.Outcome != "failed" || saw.Result != nil || saw.Error == nil || !strings.Contains(saw.Error.Message, "the backend is away") {
				t.Fatalf("got %+v", saw)
			}
			if c.shipped != extLegacy && saw.Error.Code != -32000 { // that one reads the status message only
				t.Errorf("got the code %d", saw.Error.Code)
			}
			var data struct{ Backend string }
			if c.shipped != extLegacy && (json.Unmarshal(saw.Error.Data, &data) != nil || data.Backend != "ledger") {
				t.Errorf("got the data %s", saw.Error.Data)
			}
			stored := s.awaitStored(t, saw.TaskID, v1alpha1.TaskFailed, v1alpha1.ReasonToolFailed)
			if stored.Status.Error == nil || stored.Status.Error.Code != -32000 {
				t.Errorf("stored is %+v", stored.Status.Error)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	s := newSite(t, "compute")
	for _, c := range callersWithTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.run(t, s.url, "cancel", input{"tool": "compute", "arguments": input{"seconds": 600}})
			if saw.Outcome != "cancelled" {
				t.Errorf("got %+v", saw)
			}
			if c.shipped == sdkLegacy {
				if saw.States[1] != "cancelled" {
					t.Errorf("tasks/cancel answered with a task that is %s", saw.States[1])
				}
				if saw.Again == nil || saw.Again.Code != -32602 {
					t.Errorf("cancelled twice: got %+v", saw.Again)
				}
			}
			stored := s.awaitStored(t, saw.TaskID, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
			if stored.Spec.Cancel == nil || !strings.Contains(stored.Spec.Cancel.By, s.agent()) {
				t.Errorf("cancelled by %+v", stored.Spec.Cancel)
			}
		})
	}
}

func TestListOfTasks(t *testing.T) {
	s := newSite(t, "compute")
	made := []string{
		extModern.run(t, s.url, "start", input{"tool": "compute"}).TaskID,
		extLegacy.run(t, s.url, "start", input{"tool": "compute"}).TaskID,
	}
	slices.Sort(made)
	for _, c := range []shipped{extLegacy, sdkLegacy} {
		saw := c.run(t, s.url, "list", nil)
		slices.Sort(saw.Tasks)
		if !slices.Equal(saw.Tasks, made) {
			t.Errorf("%s lists %v, want %v", c.name, saw.Tasks, made)
		}
	}
}

// The token of the call lives as long as the task: progress arrives although the call has long been answered.
func TestProgressOfATask(t *testing.T) {
	s := newSite(t, "steps")
	saw := sdkLegacy.run(t, s.url, "call", input{"tool": "steps", "progress": true})
	if saw.Outcome != "completed" {
		t.Errorf("got %+v", saw)
	}
	checkProgress(t, saw.Progress)
}

// checkProgress checks what was told of the tool steps: it grows.
func checkProgress(t *testing.T, told []progress) {
	t.Helper()
	if len(told) == 0 {
		t.Fatal("no progress was told")
	}
	last := -1.0
	for _, p := range told {
		if p.Progress <= last || p.Total != 3 {
			t.Errorf("progress %v of %v after %v", p.Progress, p.Total, last)
		}
		last = p.Progress
	}
}
