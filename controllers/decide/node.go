package decide

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// graceSlack is how long past its grace period a Pod may still be there before its node is asked about.
const graceSlack = 10 * time.Second

// doubtful is the Pod that makes one doubt its node; nil where there is none. Either the Pod should have been gone for some time, or
// it is called not ready while each of its containers is ready: that is how Kubernetes marks the Pods of a node that is silent. Of
// several Pods the newest counts, or any that a Job waits for which has announced its end. Before a next one is made it is the Pod that was there before (Ending).
func doubtful(in *Input) *corev1.Pod {
	if announced(in.Job) {
		for i := range in.Pods {
			if pod := &in.Pods[i]; pastGrace(in, pod) {
				return pod
			}
		}
	}
	pod := in.Newest()
	if pod == nil && in.Ending != nil && pastGrace(in, in.Ending) {
		return in.Ending
	}
	if pod != nil && !podEnded(pod) && (pastGrace(in, pod) || markedNotReady(pod)) {
		return pod
	}
	return nil
}

func announced(job *batchv1.Job) bool {
	return condition(job, batchv1.JobFailureTarget) != nil || condition(job, batchv1.JobSuccessCriteriaMet) != nil
}

func pastGrace(in *Input, pod *corev1.Pod) bool {
	return !podEnded(pod) && pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && in.Now.Sub(pod.DeletionTimestamp.Time) > graceSlack
}

// leavesIn is when to look again at a Pod that is to go: when it should have gone, and from then on now and then. Nothing else tells that
// it has not.
func leavesIn(in *Input) (time.Duration, bool) {
	pod := in.Newest()
	if pod == nil {
		pod = in.Ending
	}
	if pod == nil || podEnded(pod) || pod.DeletionTimestamp == nil {
		return 0, false
	}
	if left := pod.DeletionTimestamp.Add(graceSlack + time.Second).Sub(in.Now); left > 0 {
		return left, true
	}
	return lookAgain, true
}

func markedNotReady(pod *corev1.Pod) bool {
	ready, containers := podConditionOf(pod, corev1.PodReady), podConditionOf(pod, corev1.ContainersReady)
	return ready != nil && containers != nil && ready.Status == corev1.ConditionFalse && containers.Status == corev1.ConditionTrue
}

// nodeWords say what is wrong with the Pod's node; "" where nothing is, or it was not looked at.
func nodeWords(in *Input, pod *corev1.Pod) string {
	switch {
	case in.NodeGone:
		return fmt.Sprintf("the node %s is gone", pod.Spec.NodeName)
	case in.Node == nil || in.Node.Name != pod.Spec.NodeName:
		return ""
	}
	for _, c := range in.Node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return because(fmt.Sprintf("the node %s has not been ready since %s", in.Node.Name, clock(c.LastTransitionTime.Time)), c.Message)
		}
	}
	return ""
}

// nodeLost decides on a Pod that was to go, does not, and has a node that is not there: the Job hangs, and will for as long as the
// node is away. Where the Job has attempts left the task waits for the next, which Kubernetes makes when it is sure that the first is over.
func nodeLost(in *Input) *Verdict {
	pod := doubtful(in)
	if pod == nil || !pastGrace(in, pod) {
		return nil
	}
	words := nodeWords(in, pod)
	if words == "" {
		return nil
	}
	over := Expired(in) != nil
	if pod == in.Ending && in.Task.Spec.Cancel == nil {
		if isSuspended(in.Job) || over {
			return nil // it is to go, and nobody waits for it
		}
		return working(v1alpha1.ReasonScheduling, words+fmt.Sprintf("; the work goes on when the Pod %s, %s, is known to have ended", pod.Name, in.whyEnding()))
	}
	if v := handedOver(in, pod); v != nil {
		v.Stop = true
		if v.Output != nil {
			v.Output.Pod = nil // its log is out of reach
		}
		return v
	}
	if end := workEnd(in.Job, pod); end != nil && end.ExitCode == 0 && !parallel(in.Job) && doneInTime(in.Job, pod, end) {
		v := succeeded(in.Job, pod)
		v.Stop, v.Output.Pod = true, nil // its log is out of reach
		return v
	}
	words += fmt.Sprintf("; what became of the work in the Pod %s is not known", pod.Name)
	if in.Task.Spec.Cancel != nil {
		return &Verdict{State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: CancelWords(in.Task) + "; " + words, Stop: true}
	}
	if !announced(in.Job) && attemptsLeft(in) && !over {
		return working(v1alpha1.ReasonRetrying, words+"; the Job may try again when the node is back or removed")
	}
	if c := condition(in.Job, batchv1.JobFailureTarget); c != nil && c.Reason == batchv1.JobReasonDeadlineExceeded {
		words += fmt.Sprintf("; the Job's time limit of %s has passed", seconds(in.Job.Spec.ActiveDeadlineSeconds))
	}
	v := failed(v1alpha1.ReasonNodeLost, words)
	v.Stop = true
	return v
}

// attemptsLeft says whether the Job may make a further attempt if the newest fails.
func attemptsLeft(in *Input) bool {
	limit := in.Job.Spec.BackoffLimit
	return limit != nil && in.Job.Status.Failed < *limit
}
