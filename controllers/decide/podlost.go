package decide

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// podLost decides on a Pod that the cluster took away or never let run, whatever its work did.
func podLost(pod *corev1.Pod, end *corev1.ContainerStateTerminated) *Verdict {
	if pod == nil {
		return nil
	}
	switch pod.Status.Reason {
	case "DeadlineExceeded":
		return failed(v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf("the Pod %s reached its time limit (activeDeadlineSeconds) of %s and was stopped", pod.Name, seconds(pod.Spec.ActiveDeadlineSeconds)))
	case "Evicted":
		return failed(v1alpha1.ReasonEvicted, because(fmt.Sprintf("the node %s evicted the Pod %s", pod.Spec.NodeName, pod.Name), pod.Status.Message))
	case "NodeLost":
		return failed(v1alpha1.ReasonNodeLost, fmt.Sprintf("the node %s of the Pod %s is gone", pod.Spec.NodeName, pod.Name))
	}
	if c := podConditionOf(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		if c.Reason == "DeletionByPodGC" || c.Reason == "DeletionByTaintManager" && end == nil {
			return failed(v1alpha1.ReasonNodeLost, because(fmt.Sprintf("the node %s of the Pod %s is gone", pod.Spec.NodeName, pod.Name), c.Message))
		}
		return failed(v1alpha1.ReasonEvicted, because(fmt.Sprintf("the Pod %s %s", pod.Name, disruption(c.Reason, pod.Spec.NodeName)), c.Message))
	}
	if pod.Status.Reason != "" && end == nil {
		return failed(v1alpha1.ReasonStartFailed, because(fmt.Sprintf("the node %s refused the Pod %s (%s)", pod.Spec.NodeName, pod.Name, pod.Status.Reason), pod.Status.Message))
	}
	return nil
}

// disruption says what the cluster did with a Pod (reasons of the condition DisruptionTarget).
func disruption(reason, node string) string {
	switch reason {
	case "PreemptionByScheduler":
		return "was preempted by one of higher priority"
	case "EvictionByEvictionAPI":
		return fmt.Sprintf("was evicted from the node %s, as a drain does", node)
	case "DeletionByTaintManager":
		return fmt.Sprintf("was evicted from the node %s, which has a taint that it does not tolerate", node)
	case "TerminationByKubelet":
		return fmt.Sprintf("was ended by the node %s", node)
	}
	return fmt.Sprintf("was taken away by the cluster (%s)", reason)
}

// leaving decides on a Pod that is going before its work has ended; nil where it is not. Once it is gone nothing else tells why, so this
// is written down at once, and stands (gone).
func leaving(pod *corev1.Pod) *Verdict {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	why := "was deleted"
	if c := podConditionOf(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		why = because(disruption(c.Reason, pod.Spec.NodeName), c.Message)
	}
	return working(v1alpha1.ReasonEvicted, fmt.Sprintf("the Pod %s %s (its grace period ends at %s)", pod.Name, why, clock(pod.DeletionTimestamp.Time)))
}

// gone decides on a failed Job whose last Pod is not there any more: it went for the reason that was seen when it did.
func gone(in *Input, said string) *Verdict {
	status := in.Task.Status
	switch {
	case len(status.PodUIDs) == 0:
		return failed(v1alpha1.ReasonJobFailed, said+" and none of its Pods is left to tell more")
	case LosesPod(status.Reason):
		return failed(status.Reason, status.Message)
	}
	return failed(v1alpha1.ReasonEvicted, "the Pod was deleted, and with it whatever it could tell; "+said+lastSeen(in))
}

// LosesPod says whether a task of that reason, while it works, loses its Pod.
func LosesPod(reason string) bool {
	return reason == v1alpha1.ReasonEvicted || reason == v1alpha1.ReasonNodeLost
}

// deletedFirst says whether somebody deleted the Pod before its work had ended: the exit code is then that of the deletion. A
// deletion timestamp is when the grace period ends.
func deletedFirst(pod *corev1.Pod, end *corev1.ContainerStateTerminated) bool {
	if pod == nil || pod.DeletionTimestamp == nil {
		return false
	}
	return end == nil || !end.FinishedAt.Time.Before(toldToGo(pod))
}

// toldToGo is when the deletion of a Pod was asked for.
func toldToGo(pod *corev1.Pod) time.Time {
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(*grace) * time.Second)
	}
	return pod.DeletionTimestamp.Time
}
