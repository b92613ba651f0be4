package decide

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// succeededPod is the Pod whose output is the result: index 0's of an indexed Job, else the newest that succeeded.
func succeededPod(in *Input) *corev1.Pod {
	var found *corev1.Pod
	for i := range in.Pods {
		pod := &in.Pods[i]
		if pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		if pod.Annotations[batchv1.JobCompletionIndexAnnotation] == "0" {
			return pod
		}
		found = pod
	}
	return found
}

// lastFailedPod is the newest Pod that failed, else the newest of all. Where Pods work side by side, the failure of one ends the
// others: those that were deleted for it are not the cause.
func lastFailedPod(job *batchv1.Job, pods []corev1.Pod) *corev1.Pod {
	var failed, byItself *corev1.Pod
	for i := range pods {
		if pod := &pods[i]; pod.Status.Phase == corev1.PodFailed {
			failed = pod
			if !deletedFirst(pod, workEnd(job, pod)) {
				byItself = pod
			}
		}
	}
	switch {
	case parallel(job) && byItself != nil:
		return byItself
	case failed == nil && len(pods) > 0:
		return &pods[len(pods)-1]
	}
	return failed
}

// workStatus is the status of the work's container, nil before the node knows it.
func workStatus(job *batchv1.Job, pod *corev1.Pod) *corev1.ContainerStatus {
	if pod == nil {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == workContainer(job, pod) {
			return s
		}
	}
	return nil
}

// workEnd is how the work's container ended, nil where it did not run or nobody knows.
func workEnd(job *batchv1.Job, pod *corev1.Pod) *corev1.ContainerStateTerminated {
	s := workStatus(job, pod)
	if s == nil || !ran(s.State.Terminated) || s.State.Terminated.Reason == "ContainerStatusUnknown" {
		return nil
	}
	return s.State.Terminated
}

// ran says whether a container that has ended had ever started. One that its runtime could not start has the start of 1970.
func ran(t *corev1.ContainerStateTerminated) bool {
	return t != nil && !t.StartedAt.IsZero() && t.StartedAt.Unix() > 0
}

func outputOf(job *batchv1.Job, pod *corev1.Pod, end *corev1.ContainerStateTerminated) *Output {
	if end == nil {
		return nil
	}
	return &Output{Pod: pod, Container: workContainer(job, pod), ExitCode: end.ExitCode}
}

// finishedFirst says whether the work had ended by itself before it was asked to end. Where the Pod was stopped for the
// cancellation and had but one container, the work was running then, whatever the clocks say.
func finishedFirst(cancel *v1alpha1.CancelRequest, pod *corev1.Pod, end *corev1.ContainerStateTerminated) bool {
	if end == nil || cancel.At == nil || !end.FinishedAt.Before(cancel.At) {
		return false
	}
	return !stopped(pod) || len(pod.Status.ContainerStatuses) > 1
}

// stopped says whether the Pod was ended by the deadline that a stop gives it.
func stopped(pod *corev1.Pod) bool {
	return pod.Status.Reason == "DeadlineExceeded" && pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds <= 1
}

// lastStopped is the newest Pod that a stop has ended, nil where there is none.
func lastStopped(pods []corev1.Pod) *corev1.Pod {
	for i := len(pods) - 1; i >= 0; i-- {
		if podEnded(&pods[i]) && stopped(&pods[i]) {
			return &pods[i]
		}
	}
	return nil
}

// TriedAgain says whether a Pod runs although an earlier one was stopped: the Job's own policy does not count that as the end.
func TriedAgain(pods []corev1.Pod) bool {
	n := len(pods)
	return n > 1 && stopped(&pods[n-2]) && !podEnded(&pods[n-1])
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// StartedAt is when the work's container first started, in any Pod; nil before that.
func StartedAt(job *batchv1.Job, pods []corev1.Pod) *metav1.Time {
	var first *metav1.Time
	for i := range pods {
		s := workStatus(job, &pods[i])
		if s == nil {
			continue
		}
		var at *metav1.Time
		switch {
		case s.State.Running != nil:
			at = &s.State.Running.StartedAt
		case ran(s.State.Terminated):
			at = &s.State.Terminated.StartedAt
		}
		if at != nil && (first == nil || at.Before(first)) {
			first = at
		}
	}
	return first
}

// isInit says whether the container is one of those that start before the others.
func isInit(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container })
}

// isSidecar says whether an init container runs beside the others; how it ends is not how the Pod ends.
func isSidecar(pod *corev1.Pod, container string) bool {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == container {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

func memoryLimit(pod *corev1.Pod, container string) string {
	if pod == nil {
		return ""
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == container {
			return " of " + limit.String()
		}
	}
	return ""
}

// UsageOf is what the work has used, over all attempts whose Pods are left: time from the start of its container to its end, and the
// Pods that ran. nil before any of them has.
func UsageOf(job *batchv1.Job, pods []corev1.Pod) *v1alpha1.Usage {
	usage := v1alpha1.Usage{}
	for i := range pods {
		s := workStatus(job, &pods[i])
		switch {
		case s == nil:
		case s.State.Running != nil:
			usage.Attempts++
		case ran(s.State.Terminated):
			usage.Attempts++
			usage.Seconds += int64(s.State.Terminated.FinishedAt.Sub(s.State.Terminated.StartedAt.Time).Seconds())
		}
	}
	if usage.Attempts == 0 {
		return nil
	}
	return &usage
}
