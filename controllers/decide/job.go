package decide

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func jobForeign(in *Input) *Verdict {
	if in.Job == nil || metav1.IsControlledBy(in.Job, in.Task) {
		return nil
	}
	return failed(v1alpha1.ReasonJobConflict, fmt.Sprintf("a Job named %s exists and does not belong to this task", in.Job.Name))
}

// jobEnded decides on a Job whose Complete or Failed condition is True. FailureTarget and SuccessCriteriaMet
// only announce these.
func jobEnded(in *Input) *Verdict {
	pod := in.Deciding()
	if c := condition(in.Job, batchv1.JobComplete); c != nil {
		if v := handedOver(in, pod); v != nil {
			return v
		}
		return succeeded(in.Job, pod)
	}
	c := condition(in.Job, batchv1.JobFailed)
	if c == nil {
		return nil
	}
	end := workEnd(in.Job, pod)
	if in.Task.Spec.Cancel != nil && !finishedFirst(in.Task.Spec.Cancel, pod, end) {
		v := &Verdict{
			State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: CancelWords(in.Task),
			Output: outputOf(in.Job, pod, end),
		}
		if report := in.Report(pod); v.Output != nil && report != nil {
			v.Output.Reported = report.Result
		}
		return v
	}
	if v := handedOver(in, pod); v != nil {
		return v
	}
	if end != nil && end.ExitCode == 0 && single(in.Job) && doneInTime(in.Job, pod, end) {
		// Another container failed, or was ended, after the work was done.
		return succeeded(in.Job, pod)
	}
	if c.Reason == batchv1.JobReasonDeadlineExceeded {
		return failed(v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf("the Job reached its time limit (activeDeadlineSeconds) of %s and was stopped", seconds(in.Job.Spec.ActiveDeadlineSeconds))+unstarted(in))
	}
	if v := podLost(pod, end); v != nil {
		return v
	}
	if deletedFirst(pod, end) {
		return failed(v1alpha1.ReasonEvicted, fmt.Sprintf("the Pod %s was deleted before its work had ended", pod.Name))
	}
	if v := neverRan(in.Job, pod); v != nil {
		return v
	}
	if end != nil {
		v := toolFailed(in, pod, end)
		if c.Reason == batchv1.JobReasonPodFailurePolicy {
			v.Message += "; the Job's podFailurePolicy allows no further attempt"
		}
		return v
	}
	said := fmt.Sprintf("the Job failed (%s: %s)", c.Reason, c.Message)
	if pod == nil {
		return gone(in, said)
	}
	return failed(v1alpha1.ReasonJobFailed, said)
}

// doneInTime says whether work that ended well had done so by itself: one that was stopped at a time limit, or for the cluster's sake,
// may end with exit code 0 too.
func doneInTime(job *batchv1.Job, pod *corev1.Pod, end *corev1.ContainerStateTerminated) bool {
	if announced := condition(job, batchv1.JobFailureTarget); announced != nil && announced.Reason == batchv1.JobReasonDeadlineExceeded {
		return end.FinishedAt.Before(&announced.LastTransitionTime)
	}
	if c := podConditionOf(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return end.FinishedAt.Before(&c.LastTransitionTime)
	}
	return pod.Status.Reason == "" || len(pod.Status.ContainerStatuses) > 1
}

// unstarted adds to the words on a task whose work never started what had kept it.
func unstarted(in *Input) string {
	if in.Task.Status.StartedAt != nil || StartedAt(in.Job, in.Pods) != nil {
		return ""
	}
	return "; the work had not started" + lastSeen(in)
}

// lastSeen adds what the task was doing when it was last looked at.
func lastSeen(in *Input) string {
	if in.Task.Status.Message == "" {
		return ""
	}
	return " (before that: " + in.Task.Status.Message + ")"
}

func succeeded(job *batchv1.Job, pod *corev1.Pod) *Verdict {
	return &Verdict{
		State: v1alpha1.TaskCompleted, Reason: v1alpha1.ReasonSucceeded, Message: "the tool has returned its result",
		Output: &Output{Container: workContainer(job, pod), Succeeded: true, Pod: pod},
	}
}

// single says whether one Pod's success is the Job's.
func single(job *batchv1.Job) bool { return job.Spec.Completions == nil || *job.Spec.Completions == 1 }

// parallel says whether the Job may have several Pods that work at one time.
func parallel(job *batchv1.Job) bool {
	return !single(job) || job.Spec.Parallelism != nil && *job.Spec.Parallelism > 1
}

// oomKilled is the reason of a container that was killed for its memory.
const oomKilled = "OOMKilled"

// toolFailed decides on work that ran and ended with an error of its own: an answer, not a failure of the call.
func toolFailed(in *Input, pod *corev1.Pod, end *corev1.ContainerStateTerminated) *Verdict {
	v := &Verdict{State: v1alpha1.TaskCompleted, Reason: v1alpha1.ReasonToolError, Output: outputOf(in.Job, pod, end)}
	v.Message = fmt.Sprintf("the tool ended with exit code %d", end.ExitCode)
	if end.Signal != 0 {
		v.Message = fmt.Sprintf("the tool was ended by signal %d", end.Signal)
	}
	if end.Reason == oomKilled {
		v.Reason = v1alpha1.ReasonOOMKilled
		v.Message = "the tool was killed: it used more memory than its limit" + memoryLimit(pod, workContainer(in.Job, pod))
		v.Output.Cause = v.Message
	}
	n := in.Job.Status.Failed
	if !Ended(in.Job) {
		n++ // this one is not counted yet
	}
	if n > 1 {
		v.Message += fmt.Sprintf(", at the last of %d attempts", n)
	}
	return v
}

// condition is the Job's condition of that type when it is True.
func condition(job *batchv1.Job, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Ended says whether the Job has reached its end.
func Ended(job *batchv1.Job) bool {
	return condition(job, batchv1.JobComplete) != nil || condition(job, batchv1.JobFailed) != nil
}

// Settled says whether the Pods account for all that an ended Job counts. Where they do not, the watch of Pods is
// behind that of Jobs, or Pods were deleted.
func Settled(job *batchv1.Job, pods []corev1.Pod) bool {
	counted := job.Status.Succeeded + job.Status.Failed
	for i := range pods {
		if !podEnded(&pods[i]) {
			return false
		}
		counted--
	}
	return counted <= 0
}

// workContainer is the container whose end is the end of the work. The Pod knows it too: it may outlive its Job.
func workContainer(job *batchv1.Job, pod *corev1.Pod) string {
	switch {
	case job != nil:
		return job.Annotations[v1alpha1.AnnotationContainer]
	case pod != nil:
		return pod.Annotations[v1alpha1.AnnotationContainer]
	}
	return ""
}

func seconds(s *int64) string {
	if s == nil {
		return "unknown length"
	}
	return fmt.Sprintf("%d s", *s)
}
