//go:build e2e

package clients

import (
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestCallerWithoutTasksWaits(t *testing.T) {
	for _, c := range callersWithoutTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "compute")
			saw := c.call(t, s.url, input{"tool": "compute", "arguments": input{"seconds": 1, "label": "plainly"}})
			if saw.Error != nil || saw.Result.text() == "" || !strings.Contains(saw.Result.text(), "computed plainly in 1 s") {
				t.Errorf("got %+v", saw)
			}
			s.awaitStored(t, s.one(t).Name, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		})
	}
}

func TestCallerWithoutTasksAndAToolThatIsATaskOrNothing(t *testing.T) {
	s := newSite(t, "required")
	for _, c := range callersWithoutTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.call(t, s.url, input{"tool": "required"})
			code := int64(-32601)
			if c.era == modern {
				code = -32021
			}
			if saw.Error == nil || saw.Error.Code != code || !strings.Contains(saw.Error.Message, "task") {
				t.Errorf("got %+v, want the error %d", saw.Error, code)
			}
			if c.era == modern && !strings.Contains(string(saw.Error.Data), `"io.modelcontextprotocol/tasks"`) {
				t.Errorf("the error names no extension: %s", saw.Error.Data)
			}
		})
	}
}

func TestProgressOfACall(t *testing.T) {
	s := newSite(t, "steps")
	for _, c := range callersWithoutTasks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			saw := c.call(t, s.url, input{"tool": "steps", "progress": true})
			if saw.Result == nil || saw.Result.IsError {
				t.Errorf("got %+v", saw)
			}
			checkProgress(t, saw.Progress)
		})
	}
}
