package decide

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// besideGrace is how long after the work's end the containers beside it may run on before they are asked to end.
const besideGrace = 15 * time.Second

// workDone decides on work that has ended in a Pod that has not, because a container beside it runs on, for instance that of a service
// mesh, or cannot start: the Job would never end. The task ends as its work has, and what is left of the Pod is asked to end. Where the work failed and
// the Job may try again only the Pod is ended.
func workDone(in *Input) *Verdict {
	pod := in.Newest()
	end := workEnd(in.Job, pod)
	if end == nil || parallel(in.Job) || in.Task.Spec.Cancel != nil {
		return nil
	}
	if pod.Status.Phase == corev1.PodFailed && end.ExitCode == 0 && doneInTime(in.Job, pod, end) && (attemptsLeft(in) || pod.DeletionTimestamp != nil) {
		// Another container failed after the work was done: it is not done again, and what it has put out is read while it can be.
		v := handedOver(in, pod)
		if v == nil {
			v = succeeded(in.Job, pod)
		}
		v.Stop = true
		return v
	}
	beside := besideWords(in, pod)
	if podEnded(pod) || pod.DeletionTimestamp != nil || beside == "" {
		return nil
	}
	if left := end.FinishedAt.Add(besideGrace).Sub(in.Now); left > 0 {
		v := working(v1alpha1.ReasonFinishing, fmt.Sprintf("the tool has ended; %s; the Pod is asked to end at %s", beside, clock(end.FinishedAt.Add(besideGrace))))
		v.Recheck = left
		return v
	}
	v := handedOver(in, pod)
	switch {
	case v != nil:
	case end.ExitCode == 0:
		v = succeeded(in.Job, pod)
	case attemptsLeft(in):
		v = working(v1alpha1.ReasonRetrying, fmt.Sprintf("an attempt ended with exit code %d; %s; the Pod is asked to end, then the Job may try again", end.ExitCode, beside))
		v.EndPod = pod
		return v
	default:
		v = toolFailed(in, pod, end)
	}
	v.Message += fmt.Sprintf("; %s; the Pod is asked to end", beside)
	v.Stop = true
	return v
}

// besideWords name an ordinary container that keeps the Pod of the work from ending, because it runs on, or because it does not start; ""
// where there is none. Sidecars of Kubernetes' own kind are ended by Kubernetes.
func besideWords(in *Input, pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.Name == workContainer(in.Job, pod) || s.State.Terminated != nil:
		case s.State.Running != nil:
			return fmt.Sprintf("the container %s beside it still runs", s.Name)
		case s.State.Waiting != nil:
			return fmt.Sprintf("the container %s beside it does not run (%s)", s.Name, because(pullFailure(s.State.Waiting)))
		}
	}
	return ""
}
