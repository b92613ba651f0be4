package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var noonSeconds = metav1.NewTime(noon)

func TestPeopleAreToldOfWhatDoesNotGoAsItShould(t *testing.T) {
	at := func(state v1alpha1.TaskState, reason, message string) v1alpha1.McpTaskStatus {
		return v1alpha1.McpTaskStatus{State: state, Reason: reason, Message: message, JobRef: &v1alpha1.JobReference{Name: "job"}}
	}
	scheduling := at(v1alpha1.TaskWorking, v1alpha1.ReasonScheduling, "the Job has no Pod yet")
	running := at(v1alpha1.TaskWorking, v1alpha1.ReasonRunning, "the tool is running on a")
	running.StartedAt = &noonSeconds
	later := func(status v1alpha1.McpTaskStatus, d time.Duration) v1alpha1.McpTaskStatus {
		status.LastUpdatedAt = &metav1.MicroTime{Time: noon.Add(d)}
		return status
	}
	pulling := at(v1alpha1.TaskWorking, v1alpha1.ReasonPulling, "cannot be pulled")
	failed := at(v1alpha1.TaskFailed, v1alpha1.ReasonNodeLost, "the node is gone")
	queued := v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Reason: v1alpha1.ReasonQueued, Message: "exceeded quota"}
	for name, tc := range map[string]struct {
		before, after v1alpha1.McpTaskStatus
		want          string
	}{
		"a Job is made":              {v1alpha1.McpTaskStatus{}, scheduling, ""},
		"it runs":                    {scheduling, running, ""},
		"it succeeds":                {running, at(v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded, "ended"), ""},
		"its program fails":          {running, at(v1alpha1.TaskCompleted, v1alpha1.ReasonToolError, "exit code 3"), "Normal ToolError Finish completed: exit code 3"},
		"the cluster fails":          {running, failed, "Warning NodeLost Finish failed: the node is gone"},
		"nothing new after the end":  {failed, failed, ""},
		"it is about to start":       {later(scheduling, 0), later(pulling, time.Second), ""},
		"it does not start":          {later(scheduling, 0), later(pulling, settle), "Normal Pulling Start: cannot be pulled not started yet: cannot be pulled"},
		"it cannot have a Job yet":   {v1alpha1.McpTaskStatus{}, queued, "Normal Queued Start: exceeded quota not started yet: exceeded quota"},
		"it still cannot":            {queued, queued, ""},
		"it is asked to end":         {running, at(v1alpha1.TaskWorking, v1alpha1.ReasonCancelling, "asked to end"), ""},
		"it is cancelled":            {running, at(v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled, "cancelled by ann"), "Normal Cancelled Finish cancelled: cancelled by ann"},
		"it goes on after an answer": {at(v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput, "Sure?"), running, ""},
	} {
		got := ""
		if h := happened(&tc.before, &tc.after); h != nil {
			got = h.kind + " " + h.reason + " " + h.action + " " + h.note
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
