package controllers

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// happening is what people are told of by an Event. Each is a write more, so there is none of what goes as it should: that stands
// in the task itself, and Kubernetes tells of the Job.
type happening struct{ kind, reason, action, note string }

// maxAction bounds the action of an Event, in bytes (k8s.io/api/events/v1, Event.action).
const maxAction = 128

// happened is what a write has added to a task that people should hear of: that the work does not start, and an end that is no success;
// that of a cancelled task says who cancelled it. (Questions and answers: tellQuestions.)
func happened(before, after *v1alpha1.McpTaskStatus) *happening {
	switch {
	case after.State.Terminal():
		if before.State.Terminal() || after.Reason == v1alpha1.ReasonSucceeded {
			return nil
		}
		kind := corev1.EventTypeNormal
		if after.State == v1alpha1.TaskFailed {
			kind = corev1.EventTypeWarning
		}
		return &happening{kind, after.Reason, "Finish", string(after.State) + ": " + after.Message}
	case before.Message != after.Message && (after.JobRef == nil || onItsWay(after) && isLate(before, after)):
		// The obstacle is part of the action, because Events that differ in their words alone are counted as one.
		return &happening{corev1.EventTypeNormal, after.Reason, clip("Start: "+after.Message, maxAction), "not started yet: " + after.Message}
	}
	return nil
}

// isLate says whether the work has been on its way for so long that people wonder.
func isLate(before, after *v1alpha1.McpTaskStatus) bool {
	last, now := before.LastUpdatedAt, after.LastUpdatedAt
	return last != nil && now != nil && now.Sub(last.Time) >= settle
}

// tell makes Events of what a write has added to a task, and of what was done to its Job before it: whoever did that may not have come
// to tell.
func (r *TaskReconciler) tell(before, task *v1alpha1.McpTask, job *batchv1.Job) {
	r.tellQuestions(before, task)
	if waits := decide.SaysReleased(&task.Status); job != nil && waits != decide.SaysReleased(&before.Status) && waits == decide.Released(job) {
		r.tellRelease(task, job)
	}
	if h := happened(&before.Status, &task.Status); h != nil {
		r.Events.Eventf(task, nil, h.kind, h.reason, h.action, "%s", clip(h.note, 1000))
	}
}
