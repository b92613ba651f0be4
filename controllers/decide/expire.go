package decide

import (
	"fmt"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// How long a finished task is kept where its tool does not say.
const (
	KeepCompleted = 24 * time.Hour
	KeepFailed    = 72 * time.Hour
	KeepCancelled = time.Hour
	// KeepJob is how long the Job of a finished task is kept.
	KeepJob = 5 * time.Minute
)

// Expired ends a task that has not ended when its ttl passes. What has ended first stands; a task whose end was asked for
// before is cancelled.
func Expired(in *Input) *Verdict {
	left, limited := lifeLeft(in)
	if !limited || left > 0 {
		return nil
	}
	if v := justEnded(in, in.Now.Add(left)); v != nil {
		return v
	}
	if in.Task.Spec.Cancel != nil {
		return &Verdict{State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: CancelWords(in.Task), Stop: true}
	}
	was := in.Task.Status.Reason
	if was == "" {
		was = v1alpha1.ReasonQueued
	}
	words := fmt.Sprintf("the task's ttl of %s passed while it was %s", in.Task.Spec.TTL.Duration, was)
	if message := in.Task.Status.Message; message != "" {
		words += " (" + message + ")"
	}
	v := failed(v1alpha1.ReasonExpired, words)
	v.Stop = true
	return v
}

// lifeLeft is how much of the task's ttl is left, and whether it has one.
func lifeLeft(in *Input) (time.Duration, bool) {
	if in.Task.Spec.TTL == nil {
		return 0, false
	}
	return in.Task.CreationTimestamp.Add(in.Task.Spec.TTL.Duration).Sub(in.Now), true
}

// ExpiresAt is the time before which a finished task is not deleted: neither before its ttl has passed, nor before it was kept
// as long as its tool keeps tasks that end so.
func ExpiresAt(task *v1alpha1.McpTask, retention *v1alpha1.RetentionPolicy, finished time.Time) time.Time {
	if retention == nil {
		retention = &v1alpha1.RetentionPolicy{}
	}
	keep, said := KeepCompleted, retention.Completed
	switch task.Status.State {
	case v1alpha1.TaskFailed:
		keep, said = KeepFailed, retention.Failed
	case v1alpha1.TaskCancelled:
		keep, said = KeepCancelled, retention.Cancelled
	}
	if said != nil {
		keep = said.Duration
	}
	expires := finished.Add(keep)
	if ttl := task.Spec.TTL; ttl != nil {
		if end := task.CreationTimestamp.Add(ttl.Duration); end.After(expires) {
			expires = end
		}
	}
	// The API keeps whole seconds: rounded down it would be earlier than what was told.
	return expires.Add(time.Second - 1).Truncate(time.Second)
}
