//go:build e2e

package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// A task belongs to its caller and not to the words in which it was called for.
func TestTaskOfOneEraInTheOther(t *testing.T) {
	s := newSite(t, "compute")
	for _, way := range []struct {
		from, to shipped
		what     string
	}{
		{extModern, extLegacy, "resume"},
		{extModern, sdkLegacy, "result"},
		{extLegacy, extModern, "resume"},
	} {
		t.Run(way.from.name+" to "+way.to.name, func(t *testing.T) {
			t.Parallel()
			made := way.from.run(t, s.url, "start", input{"tool": "compute", "arguments": input{"seconds": 2, "label": "across"}})
			saw := way.to.run(t, s.url, way.what, input{"taskId": made.TaskID})
			if saw.TaskID != made.TaskID || !strings.Contains(saw.Result.text(), "computed across in 2 s") || !slices.Contains(saw.States, "completed") {
				t.Errorf("got %+v", saw)
			}
			s.awaitStored(t, made.TaskID, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		})
	}
}

func TestQuestionOfOneEraAnsweredInTheOther(t *testing.T) {
	for _, way := range []struct {
		from, to shipped
		what     string
	}{
		{extModern, sdkLegacy, "result"},
		{extLegacy, extModern, "resume"},
	} {
		t.Run(way.from.name+" to "+way.to.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "confirm")
			made := way.from.run(t, s.url, "start", input{"tool": "confirm", "arguments": input{"file": "notes.txt"}})
			s.awaitStored(t, made.TaskID, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
			saw := way.to.run(t, s.url, way.what, input{"taskId": made.TaskID, "answers": input{deleteIt: accept}})
			if len(saw.Asked) != 1 || saw.Result == nil || !strings.Contains(string(saw.Result.StructuredContent), `"accept"`) {
				t.Errorf("got %+v", saw)
			}
			s.checkAnswers(t, s.awaitStored(t, made.TaskID, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded), 1)
		})
	}
}
