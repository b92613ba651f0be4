package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// uid names a Pod, so that reports can be its own.
func uid(name types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = name } }

// index makes a Pod that of an index of an indexed Job.
func index(i string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Name = "t-" + i
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: i}
	}
}

// deletedAt says that somebody deleted the Pod then, with 30 seconds of grace.
func deletedAt(offset time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(at(offset + 30*time.Second))
		p.DeletionGracePeriodSeconds = ptr.To[int64](30)
	}
}

// report stores what a Pod told.
func report(pod types.UID, changes ...func(*v1alpha1.RuntimeReport)) func(*Input) {
	return func(in *Input) {
		r := v1alpha1.RuntimeReport{PodUID: pod, Sequence: 1}
		for _, change := range changes {
			change(&r)
		}
		in.Task.Status.Runtime = append(in.Task.Status.Runtime, r)
	}
}

func asks(key, message string) func(*v1alpha1.RuntimeReport) {
	return func(r *v1alpha1.RuntimeReport) {
		r.InputRequests = append(r.InputRequests, v1alpha1.InputRequest{
			Key: key, Method: "elicitation/create", Params: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"mode":"form","message":%q}`, message)},
		})
	}
}

func outcome(word string) func(*v1alpha1.RuntimeReport) {
	return func(r *v1alpha1.RuntimeReport) {
		r.Outcome = word
		switch word {
		case outcomeResult:
			r.Result = &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(`{"content":[]}`)}}
		case outcomeFailed:
			r.Error = &v1alpha1.TaskError{Code: 1234, Message: "no stock", Data: &runtime.RawExtension{Raw: []byte(`{"left":0}`)}}
		}
	}
}

func progress(state, message, current, total string) func(*v1alpha1.RuntimeReport) {
	return func(r *v1alpha1.RuntimeReport) {
		r.StateName = state
		if current != "" {
			r.Progress = &v1alpha1.Progress{Current: current, Total: total, Message: message}
		}
	}
}

func answered(key string) func(*Input) {
	return func(in *Input) {
		in.Task.Spec.InputResponses = append(in.Task.Spec.InputResponses, v1alpha1.InputResponse{Key: key})
	}
}

func known(pods ...types.UID) func(*Input) {
	return func(in *Input) { in.Task.Status.PodUIDs = pods }
}

func attempts(n int32) func(*Input) {
	return job(func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Status.Failed = ptr.To[int32](5), n })
}

func indexed(j *batchv1.Job) {
	j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](3), ptr.To[int32](3)
}

func TestQuestions(t *testing.T) {
	runs := pod(corev1.PodRunning, runningState, uid("a"))
	inInit := pod(corev1.PodPending, waiting("PodInitializing", ""), uid("a"))
	for name, tc := range map[string]struct {
		in            *Input
		state, reason string
		words         string
	}{
		"open":                     {given(runs, report("a", asks("k-1", "Approve?"))), "input_required", "AwaitingInput", "Approve?"},
		"two open":                 {given(runs, report("a", asks("k-1", "Approve?"), asks("k-2", "Sure?"))), "input_required", "AwaitingInput", "Approve?; Sure?"},
		"one of two answered":      {given(runs, report("a", asks("k-1", "Approve?"), asks("k-2", "Sure?")), answered("k-2")), "input_required", "AwaitingInput", "Approve?"},
		"answered":                 {given(runs, report("a", asks("k-1", "Approve?")), answered("k-1")), "working", "Running", "running on node1"},
		"another answered":         {given(runs, report("a", asks("k-1", "Approve?")), answered("k-9")), "input_required", "AwaitingInput", ""},
		"asked before the work":    {given(inInit, report("a", asks("k-1", "Approve?"))), "input_required", "AwaitingInput", "Approve?"},
		"asked for long":           {given(deadline("30s"), inInit, report("a", asks("k-1", "Approve?"))), "input_required", "AwaitingInput", "Approve?"},
		"answered late":            {given(deadline("30s"), inInit, report("a", asks("k-1", "Approve?")), answered("k-1")), "working", "Pulling", ""},
		"of work that has ended":   {given(pod(corev1.PodRunning, terminated(0, "Completed", -time.Second), uid("a")), report("a", asks("k-1", "Approve?"))), "working", "Finishing", ""},
		"of a dead Pod":            {given(attempts(1), pod(corev1.PodFailed, terminated(1, "Error", -time.Second), uid("a")), report("a", asks("k-1", "Approve?"))), "working", "Retrying", ""},
		"of a Pod that is deleted": {given(pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second)), report("a", asks("k-1", "Approve?"))), "working", "Evicted", "was deleted"},
		"of a failed attempt, the retry asks nothing": {given(attempts(1), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second), uid("a")), pod(corev1.PodRunning, runningState, uid("b")),
			report("a", asks("k-1", "Approve?"))), "working", "Running", ""},
		"asked again by the retry": {given(attempts(1), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second), uid("a")), pod(corev1.PodRunning, runningState, uid("b")),
			report("a", asks("k-1", "Approve?")), report("b", asks("k-1", "Approve?")), answered("k-1")), "working", "Running", ""},
		"of one index of several": {given(job(indexed), pod(corev1.PodRunning, runningState, uid("a"), index("0")), pod(corev1.PodRunning, runningState, uid("b"), index("1")),
			report("a", asks("k-1", "Approve 0?"))), "input_required", "AwaitingInput", "Approve 0?"},
		"of an index that is done": {given(job(indexed), pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second), uid("a"), index("0")), pod(corev1.PodRunning, runningState, uid("b"), index("1")),
			report("a", asks("k-1", "Approve 0?"))), "working", "Running", ""},
		"without words":         {given(runs, report("a", func(r *v1alpha1.RuntimeReport) { r.InputRequests = []v1alpha1.InputRequest{{Key: "k-1"}} })), "input_required", "AwaitingInput", "question k-1"},
		"cancelled":             {given(runs, report("a", asks("k-1", "Approve?")), cancelAt(0)), "working", "Cancelling", ""},
		"cancelled, then ended": {given(pod(corev1.PodFailed, terminated(143, "Error", -time.Second), uid("a"), podReason("DeadlineExceeded", ""), stoppedPod), report("a", asks("k-1", "Approve?")), cancelAt(-9*time.Second), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded")), "cancelled", "Cancelled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if string(got.State) != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) {
				t.Errorf("got %s/%s: %s", got.State, got.Reason, got.Message)
			}
		})
	}
}

func TestRunningSaysWhatTheWorkSays(t *testing.T) {
	for want, told := range map[string]func(*v1alpha1.RuntimeReport){
		"validating: row by row (3 of 10)": progress("validating", "row by row", "3", "10"),
		"validating (3 of 10)":             progress("validating", "", "3", "10"),
		"validating: row by row (3)":       progress("validating", "row by row", "3", ""),
		"row by row (3 of 10)":             progress("", "row by row", "3", "10"),
		"3 of 10":                          progress("", "", "3", "10"),
		"validating":                       progress("validating", "", "", ""),
		"the tool is running on node1":     progress("", "", "", ""),
	} {
		if got := Decide(given(pod(corev1.PodRunning, runningState, uid("a")), report("a", told))); got.Message != want {
			t.Errorf("got %q, want %q", got.Message, want)
		}
	}
	retry := Decide(given(attempts(1), pod(corev1.PodFailed, terminated(1, "Error", -time.Second), uid("a")), pod(corev1.PodRunning, runningState, uid("b")), report("a", progress("last", "", "9", "10"))))
	if retry.Message != "the tool is running on node1" {
		t.Errorf("a retry speaks with the words of the attempt before: %q", retry.Message)
	}
}

func TestOutcomes(t *testing.T) {
	complete, jobFailed := jobCondition(batchv1.JobComplete, "CompletionsReached"), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded")
	well := pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second), uid("a"))
	badly := pod(corev1.PodFailed, terminated(3, "Error", -time.Second), uid("a"))
	undelivered := func(word string) func(*Input) {
		return func(in *Input) {
			in.Undelivered = &v1alpha1.RuntimeReport{PodUID: "a", Sequence: 9}
			outcome(word)(in.Undelivered)
		}
	}
	for name, tc := range map[string]struct {
		in            *Input
		state, reason string
		words         string
		reported      bool
	}{
		"result":                            {given(complete, well, report("a", outcome(outcomeResult))), "completed", "Succeeded", "", true},
		"result, then another exit code":    {given(jobFailed, badly, report("a", outcome(outcomeResult))), "completed", "ToolError", "exit code 3", true},
		"result, then the Job's deadline":   {given(jobCondition(batchv1.JobFailed, "DeadlineExceeded"), pod(corev1.PodFailed, terminated(143, "Error", -time.Second), uid("a")), report("a", outcome(outcomeResult))), "completed", "ToolError", "exit code 143", true},
		"result, then the node is lost":     {given(jobFailed, pod(corev1.PodFailed, runningState, uid("a"), podReason("NodeLost", "")), report("a", outcome(outcomeResult))), "completed", "Succeeded", "", true},
		"result, then the Pod is gone":      {given(jobFailed, known("a"), report("a", outcome(outcomeResult))), "completed", "Succeeded", "", true},
		"succeeded with a result, Pod gone": {given(complete, known("a"), report("a", outcome(outcomeResult))), "completed", "Succeeded", "", true},
		"failed":                            {given(complete, well, report("a", outcome(outcomeFailed))), "failed", "ToolFailed", "no stock", false},
		"failed, then another exit code":    {given(jobFailed, badly, report("a", outcome(outcomeFailed))), "failed", "ToolFailed", "no stock", false},
		"failed without an error":           {given(complete, well, report("a", func(r *v1alpha1.RuntimeReport) { r.Outcome = outcomeFailed })), "failed", "ToolFailed", "not why", false},
		"cancelled by the work":             {given(complete, well, report("a", outcome(outcomeCancelled))), "cancelled", "Cancelled", "the tool said", false},
		"cancelled by the work, exit code":  {given(jobFailed, badly, report("a", outcome(outcomeCancelled))), "cancelled", "Cancelled", "the tool said", false},
		"no outcome":                        {given(complete, well, report("a", progress("done", "", "1", "1"))), "completed", "Succeeded", "", false},
		"no outcome, exit code":             {given(jobFailed, badly, report("a")), "completed", "ToolError", "exit code 3", false},
		"not before the Job's end":          {given(pod(corev1.PodRunning, runningState, uid("a")), report("a", outcome(outcomeFailed))), "working", "Running", "", false},
		"of a failed attempt":               {given(complete, attempts(1), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second), uid("z")), well, report("z", outcome(outcomeFailed))), "completed", "Succeeded", "", false},
		"of the last of two attempts": {given(jobFailed, attempts(2), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second), uid("z")), badly,
			report("z", outcome(outcomeResult)), report("a", outcome(outcomeFailed))), "failed", "ToolFailed", "no stock", false},
		"of index 0": {given(complete, job(indexed), pod(corev1.PodSucceeded, terminated(0, "", -time.Second), uid("b"), index("1")), pod(corev1.PodSucceeded, terminated(0, "", -time.Second), uid("a"), index("0")),
			report("a", outcome(outcomeResult)), report("b", outcome(outcomeFailed))), "completed", "Succeeded", "", true},
		"not of index 1":              {given(complete, job(indexed), pod(corev1.PodSucceeded, terminated(0, "", -time.Second), uid("b"), index("1")), pod(corev1.PodSucceeded, terminated(0, "", -time.Second), uid("a"), index("0")), report("b", outcome(outcomeFailed))), "completed", "Succeeded", "", false},
		"cancelled, failed meanwhile": {given(jobFailed, cancelAt(-9*time.Second), pod(corev1.PodFailed, terminated(143, "Error", -time.Second), uid("a")), report("a", outcome(outcomeFailed))), "cancelled", "Cancelled", "by ann", false},
		"cancelled, partial result":   {given(jobFailed, cancelAt(-9*time.Second), pod(corev1.PodFailed, terminated(143, "Error", -time.Second), uid("a")), report("a", outcome(outcomeResult))), "cancelled", "Cancelled", "by ann", true},
		"failed before the cancellation": {given(jobFailed, cancelAt(-time.Second), pod(corev1.PodFailed, terminated(3, "Error", -9*time.Second), uid("a")), report("a", outcome(outcomeFailed))),
			"failed", "ToolFailed", "no stock", false},
		"undelivered result":           {given(complete, well, undelivered(outcomeResult)), "completed", "Succeeded", "", true},
		"undelivered error":            {given(complete, well, report("a", progress("x", "", "1", "")), undelivered(outcomeFailed)), "failed", "ToolFailed", "no stock", false},
		"undelivered by another's Pod": {given(complete, pod(corev1.PodSucceeded, terminated(0, "", -time.Second), uid("b")), undelivered(outcomeFailed)), "completed", "Succeeded", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if string(got.State) != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) {
				t.Errorf("got %s/%s: %s", got.State, got.Reason, got.Message)
			}
			if reported := got.Output != nil && got.Output.Reported != nil; reported != tc.reported {
				t.Errorf("the result is the reported one: %v", reported)
			}
			if tc.reason == "ToolFailed" && tc.words == "no stock" && (got.Error.Code != 1234 || string(got.Error.Data.Raw) != `{"left":0}`) {
				t.Errorf("error %+v", got.Error)
			}
		})
	}
}

func TestDeletedPods(t *testing.T) {
	jobFailed := jobCondition(batchv1.JobFailed, "BackoffLimitExceeded")
	killed := terminated(143, "Error", -time.Second)
	for name, tc := range map[string]struct {
		in            *Input
		state, reason string
		words         string
	}{
		"while it worked":           {given(jobFailed, pod(corev1.PodFailed, killed, deletedAt(-5*time.Second))), "failed", "Evicted", "the Pod t-x was deleted"},
		"while it worked, no trace": {given(jobFailed, pod(corev1.PodFailed, runningState, deletedAt(-5*time.Second))), "failed", "Evicted", "the Pod t-x was deleted"},
		"and gone":                  {given(jobFailed, known("a")), "failed", "Evicted", "the Pod was deleted"},
		"and gone, after an attempt": {given(jobFailed, attempts(2), known("a", "b"), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second), uid("a"))),
			"failed", "Evicted", "the Pod was deleted"},
		"after its end":      {given(jobFailed, pod(corev1.PodFailed, terminated(3, "Error", -9*time.Second), deletedAt(-time.Second))), "completed", "ToolError", "exit code 3"},
		"work was done":      {given(jobFailed, pod(corev1.PodFailed, terminated(0, "Completed", -time.Second), deletedAt(-5*time.Second))), "completed", "Succeeded", ""},
		"task was cancelled": {given(jobFailed, cancelAt(-9*time.Second), pod(corev1.PodFailed, killed, deletedAt(-5*time.Second))), "cancelled", "Cancelled", ""},
		"because another failed": {given(jobFailed, job(indexed), pod(corev1.PodFailed, terminated(3, "Error", -9*time.Second), index("0")), pod(corev1.PodFailed, killed, index("1"), deletedAt(-5*time.Second))),
			"completed", "ToolError", "exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if string(got.State) != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) {
				t.Errorf("got %s/%s: %s", got.State, got.Reason, got.Message)
			}
		})
	}
}

func TestEndOfASidecarIsNoFailedStart(t *testing.T) {
	in := given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, waiting("PodInitializing", ""), func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "beside", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}, {Name: "before"}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "beside", State: terminated(143, "Error", -time.Second)}, {Name: "before", State: terminated(2, "Error", -2*time.Second)}}
	}))
	if got := Decide(in); !strings.Contains(got.Message, "the init container before ended with exit code 2") {
		t.Errorf("got %s/%s: %s", got.State, got.Reason, got.Message)
	}
}
