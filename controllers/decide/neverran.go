package decide

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// neverRan decides on a Pod that has ended and whose work never ran: a container before it failed, or its own could not be started.
func neverRan(job *batchv1.Job, pod *corev1.Pod) *Verdict {
	if pod == nil || workEnd(job, pod) != nil {
		return nil
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 && !isSidecar(pod, s.Name) {
			return failed(v1alpha1.ReasonStartFailed, because("the tool never ran: "+initWords(pod, s.Name, t), terminationWords(t)))
		}
	}
	if s := workStatus(job, pod); s != nil && s.State.Terminated != nil && !ran(s.State.Terminated) {
		return failed(v1alpha1.ReasonStartFailed, because(fmt.Sprintf("the container %s could not be started (%s)", s.Name, s.State.Terminated.Reason), s.State.Terminated.Message))
	}
	return nil
}

func initWords(pod *corev1.Pod, name string, t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason == oomKilled:
		return fmt.Sprintf("the init container %s was killed: it used more memory than its limit%s", name, memoryLimit(pod, name))
	case !ran(t):
		return fmt.Sprintf("the init container %s could not be started (%s)", name, t.Reason)
	case t.Signal != 0:
		return fmt.Sprintf("the init container %s was ended by signal %d", name, t.Signal)
	}
	return fmt.Sprintf("the init container %s ended with exit code %d", name, t.ExitCode)
}
