package decide

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// How long the Job controller waits before a further attempt: the first time, doubled with each failure, and at most
// (k8s.io/kubernetes, pkg/controller/job, DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff).
const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 10 * time.Minute
)

// backoff is how long after its last failure the Job gets its next Pod, at the latest.
func backoff(job *batchv1.Job) time.Duration {
	failures := job.Status.Failed
	if failures == 0 {
		return 0
	}
	wait := firstBackoff
	for ; failures > 1 && wait < mostBackoff; failures-- {
		wait *= 2
	}
	return min(wait, mostBackoff)
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
	return !parallel(in.Job) && !announced(in.Job) && (pod == nil || triesAgain(in.Job, pod))
}

// triesAgain says whether the Job makes a further attempt after a Pod that has ended.
func triesAgain(job *batchv1.Job, pod *corev1.Pod) bool {
	limit := job.Spec.BackoffLimit
	return pod.Status.Phase == corev1.PodFailed && limit != nil && *limit > 0 && job.Status.Failed <= *limit
}

// endOf is when a Pod that has ended did: when its last container ended, or else when it was seen not to be ready any more, or made.
func endOf(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, s := range statuses(pod) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	if c := podConditionOf(pod, corev1.PodReady); last.IsZero() && c != nil {
		last = c.LastTransitionTime.Time
	}
	if last.IsZero() {
		last = pod.CreationTimestamp.Time
	}
	return last
}
