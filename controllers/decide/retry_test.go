package decide

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestTheNextAttemptIsDueAfterTheJobControllersBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		in   *Input
		want time.Duration
	}{
		"the first":                   {given(retries(3, 0)), 0},
		"after one failure":           {given(retries(3, 1)), 10 * time.Second},
		"after three":                 {given(retries(3, 3)), 40 * time.Second},
		"after many":                  {given(retries(20, 12)), 10 * time.Minute},
		"one that is not counted yet": {given(retries(3, 0), pod(corev1.PodFailed, terminated(1, "Error", 0))), 10 * time.Second},
		"a policy may ignore some":    {given(retries(3, 1), job(func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{} })), 10 * time.Minute},
	} {
		if got := backoff(tc.in); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestAJobOfWhichNothingRunsIsNotWaitedFor(t *testing.T) {
	failed, pending, runs := pod(corev1.PodFailed, terminated(1, "Error", 0)), pod(corev1.PodPending, waiting("ContainerCreating", "")), pod(corev1.PodRunning, runningState)
	notAgain := func(in *Input) { in.Task.Status.Reason = v1alpha1.ReasonStartFailed }
	several := job(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2) })
	for name, tc := range map[string]struct {
		in   *Input
		want bool
	}{
		"it has no Pod":      {given(), true},
		"its Pod waits":      {given(pending), true},
		"it runs":            {given(runs), false},
		"its next Pod waits": {given(failed, pending), true},
		"its next Pod runs":  {given(failed, runs), false},
		"it failed, and another attempt may come": {given(failed), false},
		"it failed, and could not start again":    {given(failed, notAgain), true},
		"one of its Pods runs":                    {given(several, runs, pending, notAgain), false},
	} {
		if got := NothingRuns(tc.in); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAPodThatIsToGoIsLookedAtUntilItHas(t *testing.T) {
	for name, tc := range map[string]struct {
		in   *Input
		want time.Duration
	}{
		"it stays":                      {given(pod(corev1.PodRunning, runningState)), 0},
		"it goes, with a grace of 30 s": {given(pod(corev1.PodRunning, runningState, deletedAt(0))), 30*time.Second + graceSlack + time.Second},
		"it should have gone":           {given(pod(corev1.PodRunning, runningState, deletedAt(-time.Hour))), lookAgain},
		"it should have, on no node":    {given(pod(corev1.PodPending, waiting("", ""), deletedAt(-time.Hour), func(p *corev1.Pod) { p.Spec.NodeName = "" })), lookAgain},
	} {
		if got := Decide(tc.in); got.State.Terminal() || tc.want > 0 && (got.Recheck <= 0 || got.Recheck > tc.want) || tc.want == 0 && got.Recheck != 0 {
			t.Errorf("%s: %s/%s is looked at again after %s, want %s", name, got.State, got.Reason, got.Recheck, tc.want)
		}
	}
}
