package decide

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// LabelQueue, on a Job, names the queue of Kueue that suspends and resumes it: such a Job is nobody else's to suspend.
const LabelQueue = "kueue.x-k8s.io/queue-name"

// suspended decides on a Job that may not start yet, or not go on, for instance because it waits in a queue.
func suspended(in *Input) *Verdict {
	if !isSuspended(in.Job) {
		return nil
	}
	begun := in.Task.Status.StartedAt != nil
	queue := in.Job.Labels[LabelQueue]
	words := "the Job is suspended: it starts when its spec.suspend is set to false"
	switch {
	case queue != "" && begun:
		words = fmt.Sprintf("the Job was suspended after its work had begun, and waits in the queue %s of Kueue to begin anew; its Workload (job-%s-…) says why", queue, in.Job.Name)
	case queue != "":
		words = fmt.Sprintf("the Job waits in the queue %s of Kueue; its Workload (job-%s-…) says what for", queue, in.Job.Name)
	case begun:
		words = "the Job was suspended after its work had begun: the work begins anew when its spec.suspend is set to false"
	}
	return working(v1alpha1.ReasonQueued, words)
}

func isSuspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// letGo says whether the Pod goes because its Job was suspended, by Kueue for one of higher priority, or by hand. The Job controller takes its
// finalizer from such a Pod before it deletes it, and counts it nowhere; a Pod that goes for another reason keeps that until it is counted.
func letGo(job *batchv1.Job, pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		return false
	}
	if at := resumedAt(job); !at.IsZero() {
		return !toldToGo(pod).After(at)
	}
	return (isSuspended(job) || condition(job, batchv1.JobSuspended) != nil) && !Ended(job) && !announced(job) && job.DeletionTimestamp == nil
}

// resumedAt is when the Job was resumed last; zero where it never was, or is suspended.
func resumedAt(job *batchv1.Job) time.Time {
	if job == nil || isSuspended(job) {
		return time.Time{}
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionFalse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// begunAnew says whether the Job was suspended after a Pod that is gone had told that, and the work begins, or has begun, anew: how that Pod
// ended is not how the work ends.
func (in *Input) begunAnew(report *v1alpha1.RuntimeReport) bool {
	return in.Task.Status.Reason == v1alpha1.ReasonQueued || report != nil && report.ReportedAt != nil && report.ReportedAt.Time.Before(resumedAt(in.Job))
}

// suspendedTooLate decides on work that had said how it ended before its Job was suspended: what finished first stands, and is not done again.
// What it says after that, or in the same second, it may owe to SIGTERM.
func suspendedTooLate(in *Input) *Verdict {
	known := in.Task.Status.PodUIDs
	since := condition(in.Job, batchv1.JobSuspended)
	if !isSuspended(in.Job) || Released(in.Job) || since == nil || len(known) == 0 || parallel(in.Job) {
		return nil
	}
	report := in.reportOf(known[len(known)-1])
	if report == nil || report.ReportedAt == nil || !report.ReportedAt.Time.Before(since.LastTransitionTime.Time) {
		return nil
	}
	v := saidItsEnd(in, nil, report)
	if v != nil {
		v.Stop = true
	}
	return v
}
