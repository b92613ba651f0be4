package decide

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// running decides on work that runs, or has run and may be tried again.
func running(in *Input) *Verdict {
	pod := in.Newest()
	s := workStatus(in.Job, pod)
	if s == nil {
		return nil
	}
	switch {
	case s.State.Running != nil:
		return working(v1alpha1.ReasonRunning, runningWords(in, pod))
	case s.State.Terminated == nil:
		return nil
	case pod.Status.Phase == corev1.PodFailed && in.Job.Spec.BackoffLimit != nil && in.Job.Status.Failed <= *in.Job.Spec.BackoffLimit && *in.Job.Spec.BackoffLimit > 0:
		return working(v1alpha1.ReasonRetrying, fmt.Sprintf("attempt %d ended with exit code %d; the Job may try again", len(in.Pods), s.State.Terminated.ExitCode))
	}
	return working(v1alpha1.ReasonFinishing, "the tool has ended; its Job is about to")
}

// runningWords say where the work is: in its own words, else on which node.
func runningWords(in *Input, pod *corev1.Pod) string {
	report := in.Report(pod)
	if report == nil || report.StateName == "" && report.Progress == nil {
		return fmt.Sprintf("the tool is running on %s", pod.Spec.NodeName)
	}
	words, amount := "", ""
	if p := report.Progress; p != nil {
		words, amount = p.Message, p.Current
		if p.Total != "" {
			amount += " of " + p.Total
		}
	}
	if words != "" && report.StateName != "" {
		words = report.StateName + ": " + words
	} else {
		words += report.StateName
	}
	switch {
	case amount == "":
		return words
	case words == "":
		return amount
	}
	return words + " (" + amount + ")"
}

// cancelled decides on a task whose end was asked for while its Job has not ended.
func cancelled(in *Input) *Verdict {
	if in.Task.Spec.Cancel == nil {
		return nil
	}
	started := StartedAt(in.Job, in.Pods) != nil
	if in.Immediate || !started {
		return &Verdict{State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: cancelWords(in.Task), Stop: true}
	}
	v := working(v1alpha1.ReasonCancelling, "the tool was asked to end and has its grace period to do so")
	v.Stop = true
	return v
}

func cancelWords(task *v1alpha1.McpTask) string {
	words := "cancelled"
	if c := task.Spec.Cancel; c != nil {
		if c.By != "" {
			words += " by " + c.By
		}
		if c.Reason != "" {
			words += ": " + c.Reason
		}
	}
	return words
}
