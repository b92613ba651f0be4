package decide

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// silence is how long after its grace period a Pod that is being deleted may still seem to run: its node is gone then, or silent.
const silence = 30 * time.Second

// jobDeleted decides on a Job that was deleted while the task was working, or that goes as soon as its Pods have gone. Work that
// still has its grace period is waited for: it may have something to say. What the work had handed over stands.
func jobDeleted(in *Input) *Verdict {
	pod := in.Newest()
	end := workEnd(in.Job, pod)
	switch {
	case in.JobGone:
	case in.Job == nil || in.Job.DeletionTimestamp == nil || !metav1.IsControlledBy(in.Job, in.Task):
		return nil
	case condition(in.Job, batchv1.JobComplete) != nil, end != nil && !deletedFirst(pod, end):
		return nil // it ended by itself
	}
	if left := graceLeft(in); left > 0 {
		v := working(v1alpha1.ReasonFinishing, fmt.Sprintf("the Job %s was deleted; its Pod %s has its grace period to end", in.Task.Name, pod.Name))
		if in.Task.Spec.Cancel != nil {
			v.Reason = v1alpha1.ReasonCancelling
		}
		v.Stop, v.Recheck = in.JobGone, left
		return v
	}
	output := outputOf(in.Job, pod, end)
	if in.Task.Spec.Cancel != nil {
		v := &Verdict{State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: CancelWords(in.Task), Output: output}
		if report := in.Report(pod); output != nil && report != nil {
			output.Reported = report.Result
		}
		return v
	}
	if v := handedOver(in, pod); v != nil {
		return v
	}
	if in.NamespaceEnding {
		return failed(v1alpha1.ReasonJobDeleted, fmt.Sprintf("the namespace %s is being deleted, and the Job %s was deleted with it", in.Task.Namespace, in.Task.Name))
	}
	v := JobDeleted(in.Task)
	if end == nil && in.Task.Status.Reason != v1alpha1.ReasonFinishing {
		v.Message += lastSeen(in)
		v.Error.Message = v.Message
	}
	return v
}

// JobDeleted is the verdict on a task whose Job somebody has deleted.
func JobDeleted(task *v1alpha1.McpTask) *Verdict {
	return failed(v1alpha1.ReasonJobDeleted, fmt.Sprintf("the Job %s was deleted while the task was working; the work is not run again", task.Name))
}

// graceLeft is how long the work that runs on in Pods of a deleted Job is waited for. A deletion timestamp is when the grace period ends.
func graceLeft(in *Input) time.Duration {
	var most time.Duration
	for i := range in.Pods {
		pod := &in.Pods[i]
		s := workStatus(in.Job, pod)
		if podEnded(pod) || s == nil || s.State.Running == nil {
			continue
		}
		left := silence // the deletion of the Pod is yet to come, or the end of one that was left behind
		if pod.DeletionTimestamp != nil {
			left = pod.DeletionTimestamp.Add(silence).Sub(in.Now)
		}
		most = max(most, left)
	}
	return most
}

// Leaving says whether the Pod is being taken away, by itself or with its Job, after its work has begun: what it says, or has said, has to
// be heard now.
func Leaving(in *Input, pod *corev1.Pod) bool {
	s := workStatus(in.Job, pod)
	if s == nil || s.State.Running == nil && s.State.Terminated == nil {
		return false
	}
	if podEnded(pod) {
		return pod.DeletionTimestamp != nil // its node removes it at once
	}
	return in.JobGone || pod.DeletionTimestamp != nil || in.Job != nil && in.Job.DeletionTimestamp != nil
}

// WorkContainer is the container of a Pod whose end is the end of the work. Its Job may be gone.
func WorkContainer(in *Input, pod *corev1.Pod) string { return workContainer(in.Job, pod) }

// lastWords adds to a failure of the cluster what is known of the end of the work that it cut off.
func lastWords(in *Input, v *Verdict) {
	if v.State != v1alpha1.TaskFailed || v.Output != nil || v.Reason == v1alpha1.ReasonToolFailed || v.Reason == v1alpha1.ReasonJobConflict {
		return
	}
	if in.Job != nil && !Ended(in.Job) && in.Job.DeletionTimestamp == nil {
		return // it is asked to end because of the verdict
	}
	pod := in.Deciding()
	if in.Job == nil || pod == nil && in.Job.DeletionTimestamp != nil {
		pod = in.Newest()
	}
	if v.Output = outputOf(in.Job, pod, workEnd(in.Job, pod)); v.Output != nil {
		v.Message += fmt.Sprintf("; the work ended with exit code %d", v.Output.ExitCode)
		v.Error.Message = v.Message
	}
}
