package decide

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// tracked says that the Job controller has not counted the Pod yet, and will.
func tracked(p *corev1.Pod) { p.Finalizers = []string{batchv1.JobTrackingFinalizer} }

// suspension is the Job's condition since then: True when it was suspended, False when it was resumed.
func suspension(status corev1.ConditionStatus, offset time.Duration) func(*Input) {
	return job(func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: status, LastTransitionTime: at(offset)})
	})
}

// queuedAgain is a task whose Job Kueue has suspended nine seconds ago, after its Pod had begun.
func queuedAgain(in *Input) {
	job(func(j *batchv1.Job) { j.Labels = map[string]string{LabelQueue: "gpu"} })(in)
	started(-time.Minute)(in)
	known("a")(in)
	suspend(in)
	suspension(corev1.ConditionTrue, -9*time.Second)(in)
}

// onceMore is that task when its Job has been resumed, a second ago.
func onceMore(in *Input) {
	started(-time.Minute)(in)
	known("a")(in)
	suspension(corev1.ConditionFalse, -time.Second)(in)
}

func TestWorkThatIsSuspendedBeginsAnew(t *testing.T) {
	runs := pod(corev1.PodRunning, runningState, uid("a"))
	ending := pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-9*time.Second))
	exited := func(phase corev1.PodPhase, code int32) func(*Input) {
		return pod(phase, terminated(code, "", -8*time.Second), uid("a"), deletedAt(-9*time.Second))
	}
	immediate := func(in *Input) { in.Immediate = true }
	result := func(when time.Duration) func(*Input) { return report("a", told(when), outcome(outcomeResult)) }
	longSince := pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Hour))
	was := func(reason string) func(*Input) { return func(in *Input) { in.Task.Status.Reason = reason } }
	for name, tc := range map[string]struct {
		in                   *Input
		state, reason, words string
		stop                 bool
	}{
		"its Pod is not told yet":      {given(queuedAgain, runs), "working", "Queued", "suspended after its work had begun, and waits in the queue gpu of Kueue", false},
		"its Pod ends":                 {given(queuedAgain, ending), "working", "Queued", "the queue gpu", false},
		"its Pod is gone":              {given(queuedAgain), "working", "Queued", "the queue gpu", false},
		"by hand":                      {given(queuedAgain, job(func(j *batchv1.Job) { j.Labels = nil }), ending), "working", "Queued", "begins anew when its spec.suspend is set to false", false},
		"it exits with 0 on SIGTERM":   {given(queuedAgain, exited(corev1.PodSucceeded, 0)), "working", "Queued", "the queue gpu", false},
		"and what is beside it fails":  {given(queuedAgain, exited(corev1.PodFailed, 0)), "working", "Queued", "the queue gpu", false},
		"its node is silent":           {given(queuedAgain, silentNode, longSince), "working", "Queued", "the queue gpu", false},
		"for longer than a start":      {given(queuedAgain, deadline("1s")), "working", "Queued", "the queue gpu", false},
		"it had asked":                 {given(queuedAgain, ending, report("a", asks("k-1", "Approve?"))), "working", "Queued", "the queue gpu", false},
		"a partial result, on SIGTERM": {given(queuedAgain, ending, result(-4*time.Second)), "working", "Queued", "the queue gpu", false},
		"a result in that same second": {given(queuedAgain, ending, result(-8500*time.Millisecond)), "working", "Queued", "the queue gpu", false},
		"an attempt before had failed": {given(queuedAgain, retries(3, 1), pod(corev1.PodFailed, terminated(1, "Error", -time.Minute), uid("z")), ending), "working", "Queued", "the queue gpu", false},

		"its result was there before":    {given(queuedAgain, ending, result(-10*time.Second)), "completed", "Succeeded", "", true},
		"its error was there before":     {given(queuedAgain, report("a", told(-10*time.Second), outcome(outcomeFailed))), "failed", "ToolFailed", "no stock", true},
		"it had succeeded before":        {given(queuedAgain, jobCondition(batchv1.JobComplete, ""), pod(corev1.PodSucceeded, terminated(0, "Completed", -10*time.Second), uid("a"))), "completed", "Succeeded", "", false},
		"it had failed, and is deleted":  {given(queuedAgain, jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(3, "Error", -10*time.Second), uid("a"), deletedAt(-9*time.Second))), "completed", "ToolError", "exit code 3", false},
		"deleted by hand while it waits": {given(queuedAgain, was("Queued"), func(in *Input) { in.Job, in.JobGone = nil, true }, result(-4*time.Second)), "failed", "JobDeleted", "", false},

		"cancelled while its Pod ends":          {given(queuedAgain, cancelAt(-time.Second), ending), "cancelled", "Cancelled", "by ann", true},
		"cancelled while its Pod ends, at once": {given(queuedAgain, immediate, cancelAt(-time.Second), exited(corev1.PodSucceeded, 0)), "cancelled", "Cancelled", "by ann", true},
		"cancelled":                             {given(queuedAgain, cancelAt(-time.Second)), "cancelled", "Cancelled", "by ann", true},

		"resumed, the Pod still ends": {given(onceMore, ending), "working", "Scheduling", "the Job goes on; the work gets a Pod again when the Pod t-x, which goes since the Job was suspended, has ended", false},
		"resumed, kube-controller-manager has not seen it": {given(onceMore, job(func(j *batchv1.Job) { j.Status.Conditions = nil }), suspension(corev1.ConditionTrue, -9*time.Second), ending),
			"working", "Scheduling", "the Job goes on", false},
		"resumed, its node is silent":           {given(onceMore, silentNode, longSince), "working", "Scheduling", "which goes since the Job was suspended, is known to have ended", false},
		"resumed, the Pod has exited with 0":    {given(onceMore, exited(corev1.PodFailed, 0)), "working", "Scheduling", "the Job goes on", false},
		"resumed, no Pod yet":                   {given(onceMore, deadline("30s"), waits(0)), "working", "Scheduling", "no Pod yet", false},
		"resumed, no Pod for long":              {given(onceMore, deadline("30s"), waits(-time.Minute)), "failed", "StartFailed", "could not start again within 30s", true},
		"resumed, then cancelled":               {given(onceMore, cancelAt(-time.Second), ending), "cancelled", "Cancelled", "by ann", true},
		"resumed, a Pod is told to go since":    {given(onceMore, pod(corev1.PodRunning, runningState, uid("a"), deletedAt(0), tracked)), "working", "Evicted", "was deleted", false},
		"resumed, a Pod that went is not known": {given(onceMore, pod(corev1.PodFailed, terminated(143, "Error", 0), uid("a"), deletedAt(0))), "working", "Evicted", "was deleted", false},
		"the second Pod runs":                   {given(onceMore, known("a", "b"), exited(corev1.PodSucceeded, 0), pod(corev1.PodRunning, runningState, uid("b"))), "working", "Running", "", false},
		"the second Pod fails": {given(onceMore, known("a", "b"), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), exited(corev1.PodSucceeded, 0), pod(corev1.PodFailed, terminated(3, "Error", 0), uid("b"))),
			"completed", "ToolError", "exit code 3", false},
		"the second Pod was never seen": {given(onceMore, jobCondition(batchv1.JobComplete, ""), exited(corev1.PodSucceeded, 0), result(-4*time.Second)), "completed", "Succeeded", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := apart(tc.in)
			if string(got.State) != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) || got.Stop != tc.stop {
				t.Errorf("got %s/%s stop %v: %s", got.State, got.Reason, got.Stop, got.Message)
			}
			if out := got.Output; out != nil && strings.HasPrefix(name, "the second Pod") && (out.Reported != nil || out.Pod != nil && out.Pod.UID != "b") {
				t.Errorf("the output is that of the first: %+v", out)
			}
		})
	}
}

// A Pod that goes for another reason is an attempt, whether or not its Job is suspended meanwhile: the Job counts it.
func TestAPodThatTheJobCountsIsAnAttempt(t *testing.T) {
	for name, in := range map[string]*Input{
		"evicted, then suspended": given(queuedAgain, pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-20*time.Second), tracked)),
		"never suspended":         given(pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second))),
		"it runs":                 given(queuedAgain, pod(corev1.PodRunning, runningState, uid("a"))),
		"the Job is about to end": given(queuedAgain, jobCondition(batchv1.JobFailureTarget, "DeadlineExceeded"), pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second))),
	} {
		if attempts, others := Apart(in.Job, in.Pods); len(attempts) != 1 || len(others) > 0 {
			t.Errorf("%s: attempts %d, others %d", name, len(attempts), len(others))
		}
	}
	if NothingRuns(given(queuedAgain)) != true {
		t.Error("the Job of a task that has ended meanwhile would stay in the queue")
	}
}
