package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// How long the Job controller waits before a further attempt: the first time, doubled with each failure, and at most
// (k8s.io/kubernetes, pkg/controller/job, DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff).
const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 10 * time.Minute
)

// backoff is how long after its last failure the Job gets its next Pod, at the latest. Failures that a podFailurePolicy ignores are counted
// for that, and nowhere else.
func backoff(in *Input) time.Duration {
	failed := failures(in)
	switch {
	case in.Task.Status.StartedAt == nil && failed == 0:
		return 0
	case in.Job.Spec.PodFailurePolicy != nil:
		return mostBackoff
	case failed == 0:
		return 0
	}
	wait := firstBackoff
	for ; failed > 1 && wait < mostBackoff; failed-- {
		wait *= 2
	}
	return min(wait, mostBackoff)
}

// Awaits says for which Pod that is not there the work waits, in a text that is another one for another wait; "" where it waits for none:
// it has one, it may not start, it has ended, or the Pod that was given back has to end first.
func Awaits(in *Input) string {
	pod := in.Newest()
	if in.Job == nil || Ended(in.Job) || suspended(in) != nil || in.Ending != nil || pod != nil && !podEnded(pod) || !toStart(in) {
		return ""
	}
	if pod == nil {
		return string(in.Job.UID)
	}
	return string(in.Job.UID) + " after " + string(pod.UID)
}

// toStart says whether the work is still to start in a Pod: in one that is there, or in one that the Job owes. What several Pods at a time
// owe each other is the Job's own affair.
func toStart(in *Input) bool {
	pod := in.Newest()
	switch {
	case pod != nil && !podEnded(pod):
		return StartedAt(in.Job, []corev1.Pod{*pod}) == nil
	case pod == nil && in.Task.Status.StartedAt == nil:
		return true
	}
	return !parallel(in.Job) && !announced(in.Job) && (pod == nil || triesAgain(in, pod))
}

// NothingRuns says whether the work runs in no Pod of the Job, and what is still to come of the Job nobody waits for: it has never begun, or
// could not begin again.
func NothingRuns(in *Input) bool {
	waits := in.Task.Status.Reason == v1alpha1.ReasonStartFailed || StartedAt(in.Job, in.Pods) == nil
	for i := range in.Pods {
		if pod := in.Pods[i : i+1]; !podEnded(&pod[0]) {
			if StartedAt(in.Job, pod) != nil {
				return false
			}
			waits = true
		}
	}
	return waits
}

// triesAgain says whether the Job makes a further attempt after a Pod that has ended.
func triesAgain(in *Input, pod *corev1.Pod) bool {
	limit := in.Job.Spec.BackoffLimit
	return pod.Status.Phase == corev1.PodFailed && limit != nil && *limit > 0 && failures(in) <= *limit
}

// failures are those that the Job counts, and that it is about to count. Of those that a podFailurePolicy may ignore it counts what it says.
func failures(in *Input) int32 {
	counted := in.Job.Status.Failed
	if in.Job.Spec.PodFailurePolicy != nil {
		return counted
	}
	var seen int32
	for i := range in.Pods {
		if in.Pods[i].Status.Phase == corev1.PodFailed {
			seen++
		}
	}
	return max(counted, seen)
}
