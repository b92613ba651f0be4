package decide

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// markedWork names the work's container on the Pod, which may outlive its Job.
func markedWork(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.AnnotationContainer: "work"}
}

func TestADeletedJobIsHeardOut(t *testing.T) {
	gone := func(in *Input) { in.Job, in.JobGone = nil, true }
	going := job(func(j *batchv1.Job) { when := at(-time.Second); j.DeletionTimestamp = &when })
	jobFailed := jobCondition(batchv1.JobFailed, "BackoffLimitExceeded")
	killed := terminated(143, "Error", -time.Second)
	unknownEnd := terminated(0, "ContainerStatusUnknown", -time.Second)
	for name, tc := range map[string]struct {
		in            *Input
		state, reason string
		words         string
		exit          int32 // of the output; 0 is no output
	}{
		"its Pod ends":                       {given(gone, pod(corev1.PodRunning, runningState, markedWork, deletedAt(-5*time.Second))), "working", "Finishing", "grace period", 0},
		"its Pod was left behind":            {given(gone, pod(corev1.PodRunning, runningState, markedWork)), "working", "Finishing", "grace period", 0},
		"its Pod has ended":                  {given(gone, pod(corev1.PodFailed, killed, markedWork, deletedAt(-5*time.Second))), "failed", "JobDeleted", "exit code 143", 143},
		"its Pod went without a word":        {given(gone, pod(corev1.PodFailed, unknownEnd, markedWork, deletedAt(-5*time.Second))), "failed", "JobDeleted", "not run again", 0},
		"its Pod is long past its grace":     {given(gone, pod(corev1.PodRunning, runningState, markedWork, deletedAt(-5*time.Minute))), "failed", "JobDeleted", "not run again", 0},
		"its Pod never ran":                  {given(gone, pod(corev1.PodPending, waiting("ErrImagePull", ""), markedWork)), "failed", "JobDeleted", "not run again", 0},
		"with its Pods, in the foreground":   {given(going, pod(corev1.PodRunning, runningState, deletedAt(-5*time.Second))), "working", "Finishing", "grace period", 0},
		"in the foreground, and they ended":  {given(going, jobFailed, pod(corev1.PodFailed, killed, deletedAt(-5*time.Second))), "failed", "JobDeleted", "exit code 143", 143},
		"in the foreground, work was done":   {given(going, jobFailed, pod(corev1.PodFailed, terminated(3, "Error", -9*time.Second), deletedAt(-time.Second))), "completed", "ToolError", "exit code 3", 3},
		"in the foreground, it was complete": {given(going, jobCondition(batchv1.JobComplete, ""), pod(corev1.PodSucceeded, terminated(0, "", -9*time.Second))), "completed", "Succeeded", "", 0},
		"a cancelled task, while it ends":    {given(gone, cancelAt(-time.Second), pod(corev1.PodRunning, runningState, markedWork, deletedAt(-5*time.Second))), "working", "Cancelling", "grace period", 0},
		"a cancelled task, when it ended":    {given(gone, cancelAt(-time.Second), pod(corev1.PodFailed, killed, markedWork, deletedAt(-5*time.Second))), "cancelled", "Cancelled", "by ann", 143},
		"after it handed over its result":    {given(gone, pod(corev1.PodFailed, killed, markedWork, uid("a"), deletedAt(-5*time.Second)), report("a", outcome(outcomeResult))), "completed", "ToolError", "handed over a result", 143},
		"a deadline":                         {given(jobCondition(batchv1.JobFailed, "DeadlineExceeded"), pod(corev1.PodFailed, killed)), "failed", "DeadlineExceeded", "exit code 143", 143},
		"an eviction":                        {given(jobFailed, pod(corev1.PodFailed, killed, podReason("Evicted", "low on memory"))), "failed", "Evicted", "exit code 143", 143},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if string(got.State) != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) {
				t.Errorf("got %s/%s: %s", got.State, got.Reason, got.Message)
			}
			var exit int32
			if got.Output != nil {
				exit = got.Output.ExitCode
			}
			if exit != tc.exit || got.Error != nil && got.Error.Message != got.Message {
				t.Errorf("exit code %d, error %+v", exit, got.Error)
			}
			if got.State == v1alpha1.TaskWorking && got.Recheck <= 0 {
				t.Error("nobody looks again")
			}
		})
	}
}

func TestAnAttemptThatNobodySawIsNotTheOneBefore(t *testing.T) {
	failedAt := func(offset time.Duration) func(*Input) {
		return job(func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: at(offset)})
		})
	}
	first := pod(corev1.PodFailed, terminated(1, "Error", -time.Minute), uid("a"))
	for name, tc := range map[string]struct {
		in            *Input
		state, reason string
	}{
		"the second is gone":           {given(attempts(2), failedAt(-40*time.Second), known("a"), first), "failed", "Evicted"},
		"the first is gone, unknown":   {given(attempts(2), failedAt(-59*time.Second), known("a"), first), "completed", "ToolError"},
		"the first is gone, but known": {given(attempts(2), failedAt(-40*time.Second), known("z", "a"), first), "completed", "ToolError"},
		"there was but one":            {given(attempts(1), failedAt(-20*time.Second), known("a"), first), "completed", "ToolError"},
		"the second is gone and what the first handed over is not its own": {
			given(attempts(2), failedAt(-40*time.Second), known("a"), first, report("a", outcome(outcomeResult))), "failed", "Evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(tc.in); string(got.State) != tc.state || got.Reason != tc.reason {
				t.Errorf("got %s/%s: %s", got.State, got.Reason, got.Message)
			}
		})
	}
}
