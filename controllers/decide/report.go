package decide

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Outcomes that a Pod may report of its work.
const (
	outcomeResult    = "result"
	outcomeFailed    = "failed"
	outcomeCancelled = "cancelled"
)

// Report is what a Pod told about its work, nil where it told nothing. A Pod answers for itself alone: what a failed attempt
// reported is not its retry's.
func (in *Input) Report(pod *corev1.Pod) *v1alpha1.RuntimeReport {
	if pod == nil {
		return nil
	}
	return in.reportOf(pod.UID)
}

func (in *Input) reportOf(pod types.UID) *v1alpha1.RuntimeReport {
	if r := in.Undelivered; r != nil && r.PodUID == pod {
		return r
	}
	for i := range in.Task.Status.Runtime {
		if r := &in.Task.Status.Runtime[i]; r.PodUID == pod {
			return r
		}
	}
	return nil
}

// Newest is the Pod that tells how far the work is, nil where there is none.
func (in *Input) Newest() *corev1.Pod {
	if len(in.Pods) == 0 {
		return nil
	}
	return &in.Pods[len(in.Pods)-1]
}

// Deciding is the Pod that decides what became of work that has ended: the one that succeeded, else the last that failed. It is
// nil before the Job's end, and where that Pod is gone.
func (in *Input) Deciding() *corev1.Pod {
	switch {
	case in.Job == nil:
		return nil
	case condition(in.Job, batchv1.JobComplete) != nil:
		return succeededPod(in)
	case condition(in.Job, batchv1.JobFailed) != nil && !in.lastIsGone():
		return lastFailedPod(in.Job, in.Pods)
	}
	return nil
}

// lastIsGone says whether the Pod of the last attempt is gone.
func (in *Input) lastIsGone() bool {
	known := in.Task.Status.PodUIDs
	switch {
	case in.Job != nil && parallel(in.Job):
		return false
	case in.lastWasMissed():
		return true
	case len(known) == 0:
		return false
	}
	last := known[len(known)-1]
	return !slices.ContainsFunc(in.Pods, func(pod corev1.Pod) bool { return pod.UID == last })
}

// handedOver decides on work that said itself how it ended; nil where it did not. What a Pod handed over outlives it.
func handedOver(in *Input, pod *corev1.Pod) *Verdict {
	report := in.Report(pod)
	if pod == nil && in.lastIsGone() && !in.lastWasMissed() {
		report = in.reportOf(in.Task.Status.PodUIDs[len(in.Task.Status.PodUIDs)-1])
		if in.begunAnew(report) {
			return nil
		}
	}
	if report == nil {
		return nil
	}
	switch report.Outcome {
	case outcomeFailed:
		return toolRefused(report.Error)
	case outcomeCancelled:
		return &Verdict{State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: "the tool said that it was cancelled"}
	case outcomeResult:
		return returned(in, pod, report.Result)
	}
	return nil
}

// toolRefused is the verdict on work that ended with a JSON-RPC error of its own.
func toolRefused(given *v1alpha1.TaskError) *Verdict {
	if given == nil {
		return failed(v1alpha1.ReasonToolFailed, "the tool said that it failed, and not why")
	}
	v := Failed(given.Code, v1alpha1.ReasonToolFailed, given.Message)
	v.Error.Data = given.Data
	return v
}

// returned is the verdict on work that handed over its result. What happened to its Pod afterwards does not unsay that; another
// exit code than 0 makes it an error of the tool.
func returned(in *Input, pod *corev1.Pod, result *v1alpha1.TaskResult) *Verdict {
	v := succeeded(in.Job, pod)
	if end := workEnd(in.Job, pod); end != nil && end.ExitCode != 0 {
		v.Reason = v1alpha1.ReasonToolError
		v.Message = fmt.Sprintf("the tool handed over a result and then ended with exit code %d", end.ExitCode)
		v.Output = outputOf(in.Job, pod, end)
	}
	v.Output.Reported = result
	return v
}
