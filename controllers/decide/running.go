package decide

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// running decides on work that runs, or has run and may be tried again.
func running(in *Input) *Verdict {
	pod := in.Newest()
	if pod == nil {
		return nil
	}
	if podEnded(pod) {
		v := attemptEnded(in, pod)
		if toStart(in) {
			v.Recheck = lookIn(in)
		}
		return v
	}
	s := workStatus(in.Job, pod)
	if s == nil || s.State.Running == nil && s.State.Terminated == nil {
		return nil
	}
	v := working(v1alpha1.ReasonFinishing, fmt.Sprintf("the tool has ended; the Pod %s is about to", pod.Name))
	if s.State.Running != nil {
		v = working(v1alpha1.ReasonRunning, runningWords(in, pod))
	} else if beside := besideWords(in, pod); beside != "" {
		v.Message = "the tool has ended; " + beside
	}
	if leaving := leaving(pod); leaving != nil && s.State.Running != nil {
		v = leaving
	}
	if words := nodeWords(in, pod); words != "" && s.State.Running != nil {
		v.Message = words + "; whether the tool still runs there is not known"
	} else if words != "" {
		v.Message += "; " + words
	}
	return v
}

// attemptEnded decides on a Pod that has ended and whose Job has not.
func attemptEnded(in *Input, pod *corev1.Pod) *Verdict {
	end := workEnd(in.Job, pod)
	lost := podLost(pod, end)
	if lost == nil && deletedFirst(pod, end) {
		lost = leaving(pod)
	}
	if lost != nil && LosesPod(lost.Reason) && pod.Status.Phase == corev1.PodFailed {
		return working(lost.Reason, lost.Message)
	}
	if !triesAgain(in, pod) {
		return working(v1alpha1.ReasonFinishing, fmt.Sprintf("the tool has ended; the Job %s is about to", in.Job.Name))
	}
	words := "failed"
	if end != nil {
		words = because(fmt.Sprintf("ended with exit code %d", end.ExitCode), terminationWords(end))
	} else if lost != nil {
		words = because(words, lost.Message)
	} else if v := neverRan(in.Job, pod); v != nil {
		words = because(words, v.Message)
	}
	next := "the Job may try again"
	if in.jobWarning() != "" {
		next = noPodWords(in)
	}
	of := ""
	if in.Job.Spec.BackoffLimitPerIndex == nil { // then the other one means nothing
		of = fmt.Sprintf(" of %d", *in.Job.Spec.BackoffLimit+1)
	}
	return working(v1alpha1.ReasonRetrying, fmt.Sprintf("attempt %d%s %s; %s", len(in.Pods), of, words, next))
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

// justEnded decides on work that ended by itself before that time, and whose Job is about to say so: what finished first stands.
func justEnded(in *Input, before time.Time) *Verdict {
	pod := in.Newest()
	end := workEnd(in.Job, pod)
	if in.Job == nil || end == nil || parallel(in.Job) || !podEnded(pod) || stopped(pod) || triesAgain(in, pod) || !end.FinishedAt.Time.Before(before) {
		return nil
	}
	left := end.FinishedAt.Add(jobGrace).Sub(in.Now)
	if left <= 0 {
		return nil
	}
	v := attemptEnded(in, pod)
	v.Recheck = left
	return v
}

// jobGrace is how long after its stopped Pod a Job may take to end.
const jobGrace = 30 * time.Second

// cancelled decides on a task whose end was asked for while its Job has not ended.
func cancelled(in *Input) *Verdict {
	if in.Task.Spec.Cancel == nil {
		return nil
	}
	started := StartedAt(in.Job, in.Pods) != nil && !Released(in.Job)
	if in.Immediate {
		if v := justEnded(in, in.Now.Add(time.Second)); v != nil {
			return v // it was not stopped: whatever the clocks say, it ended by itself
		}
	}
	if in.Immediate || !started {
		return &Verdict{State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: CancelWords(in.Task), Stop: true}
	}
	v := working(v1alpha1.ReasonCancelling, "the tool was asked to end and has its grace period (terminationGracePeriodSeconds) to do so")
	v.Stop = true
	pod := lastStopped(in.Pods)
	if pod == nil {
		return v
	}
	// The work has ended, and a Job whose podFailurePolicy ignores that goes on all the same.
	end := workEnd(in.Job, pod)
	if !TriedAgain(in.Pods) && end != nil {
		if left := end.FinishedAt.Add(jobGrace).Sub(in.Now); left > 0 {
			v.Recheck = left
			return v
		}
	}
	v.State, v.Reason, v.Message = v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled, CancelWords(in.Task)
	if v.Output = outputOf(in.Job, pod, end); v.Output != nil {
		if report := in.Report(pod); report != nil {
			v.Output.Reported = report.Result
		}
	}
	return v
}

// CancelWords say who cancelled the task, and why.
func CancelWords(task *v1alpha1.McpTask) string {
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
