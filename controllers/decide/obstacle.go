package decide

import (
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// obstacle is what keeps the work from starting: the reason while it waits, the reason once it has
// waited too long, and the cause in words.
type obstacle struct{ phase, reason, words string }

// startObstacle looks from the Job to the container, in the order in which Kubernetes starts them.
func startObstacle(in *Input) obstacle {
	pod := in.Newest()
	if pod == nil || podEnded(pod) {
		return obstacle{v1alpha1.ReasonScheduling, v1alpha1.ReasonStartFailed, noPodWords(in)}
	}
	if pod.Spec.NodeName == "" {
		return unscheduled(pod)
	}
	if words := nodeWords(in, pod); words != "" {
		return obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed, fmt.Sprintf("the Pod %s cannot start: %s", pod.Name, words)}
	}
	for _, s := range statuses(pod) {
		if o := containerObstacle(in, pod, s); o != nil {
			return *o
		}
	}
	words := fmt.Sprintf("the node %s prepares the volumes and the network of the Pod %s", pod.Spec.NodeName, pod.Name)
	if said := in.warning(pod.UID); said != "" {
		words = fmt.Sprintf("the node %s cannot start the Pod %s: %s", pod.Spec.NodeName, pod.Name, madeUp.ReplaceAllString(said, "…"))
	}
	return obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed, words}
}

// noPodWords say why the Job has no Pod that could start.
func noPodWords(in *Input) string {
	if said := in.jobWarning(); said != "" {
		return "the API server does not take the Job's Pod: " + refused.ReplaceAllString(said, "")
	}
	return "the Job has no Pod yet; kube-controller-manager makes it"
}

// What a cluster says anew at each try, and what says nothing: the task is not written anew for it.
var (
	refused = regexp.MustCompile(`^Error creating: (pods "[^"]*" is (forbidden|invalid): )?`)
	madeUp  = regexp.MustCompile(`[0-9a-f]{64}`)
)

// unscheduled is why a Pod has no node, as the scheduler says.
func unscheduled(pod *corev1.Pod) obstacle {
	words := fmt.Sprintf("the Pod %s waits for a node", pod.Name)
	if c := podConditionOf(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		if c.Reason == corev1.PodReasonSchedulingGated {
			words = because(fmt.Sprintf("the Pod %s is held back by a scheduling gate", pod.Name), c.Message)
		} else {
			words = because(fmt.Sprintf("the Pod %s fits no node", pod.Name), c.Message)
		}
	}
	return obstacle{v1alpha1.ReasonScheduling, v1alpha1.ReasonUnschedulable, words}
}

// statuses are the containers of a Pod in the order in which they start.
func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
}

// containerObstacle is what keeps one container from starting, or the others from starting after it; nil where nothing does.
func containerObstacle(in *Input, pod *corev1.Pod, s corev1.ContainerStatus) *obstacle {
	if isInit(pod, s.Name) && !isSidecar(pod, s.Name) && s.State.Running != nil {
		return &obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed,
			fmt.Sprintf("the init container %s runs since %s; the tool starts after it", s.Name, clock(s.State.Running.StartedAt.Time))}
	}
	if notUp(pod, s) {
		return &obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed,
			because(fmt.Sprintf("the sidecar container %s has not passed its startup probe; the tool starts after it", s.Name), in.probeWarning(pod))}
	}
	w := s.State.Waiting
	if w == nil {
		return nil
	}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		reason, said := pullFailure(w)
		return &obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonImagePullFailed,
			because(fmt.Sprintf("the image %s of the container %s cannot be pulled (%s)", s.Image, s.Name, reason), said)}
	case "", "ContainerCreating", "PodInitializing":
		if !readyForContainers(pod) {
			return nil
		}
		return &obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed,
			fmt.Sprintf("the node %s pulls the image %s, where it does not have it, and starts the container %s", pod.Spec.NodeName, s.Image, s.Name)}
	}
	return &obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed, because(fmt.Sprintf("the container %s cannot start (%s)", s.Name, w.Reason), w.Message)}
}

// probeWarning is what the last probe that failed said. That the container is started anew for it, again and again, is nothing new.
func (in *Input) probeWarning(pod *corev1.Pod) string {
	return in.lastWarning(pod.UID, func(e *eventsv1.Event, _ time.Time) bool { return e.Reason == "Unhealthy" })
}

// notUp says whether a sidecar runs and the others still wait for it.
func notUp(pod *corev1.Pod, s corev1.ContainerStatus) bool {
	return isSidecar(pod, s.Name) && s.State.Running != nil && s.Started != nil && !*s.Started
}

// backOff is how a node says that it waits before it tries again to pull an image; what it failed with follows.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*": (\w+): (.+)`)

// pullFailure is why an image cannot be pulled, the same while the node tries and while it waits: a task is not written anew at each turn.
func pullFailure(w *corev1.ContainerStateWaiting) (reason, said string) {
	if parts := backOff.FindStringSubmatch(w.Message); parts != nil {
		return parts[1], parts[2]
	}
	return w.Reason, w.Message
}

// readyForContainers says whether the Pod has its volumes and its network.
func readyForContainers(pod *corev1.Pod) bool {
	c := podConditionOf(pod, corev1.PodReadyToStartContainers)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podConditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}
