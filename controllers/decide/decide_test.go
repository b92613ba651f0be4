package decide

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func at(offset time.Duration) metav1.Time { return metav1.NewTime(now.Add(offset)) }

// given is an Input: a task, its Job made a minute ago, no Pods; then what the options say.
func given(options ...func(*Input)) *Input {
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "t", UID: "task-uid"}}
	in := &Input{Task: task, Now: now, Job: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "t", CreationTimestamp: at(-time.Minute), Annotations: map[string]string{v1alpha1.AnnotationContainer: "work"},
			OwnerReferences: []metav1.OwnerReference{{UID: "task-uid", Controller: ptr.To(true)}},
		},
		Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](0)},
	}}
	for _, o := range options {
		o(in)
	}
	return in
}

func job(change func(*batchv1.Job)) func(*Input) { return func(in *Input) { change(in.Job) } }

func jobCondition(t batchv1.JobConditionType, reason string) func(*Input) {
	return job(func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: "as Kubernetes says"})
	})
}

func cancelAt(offset time.Duration) func(*Input) {
	return func(in *Input) {
		when := at(offset)
		in.Task.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true, By: "ann", At: &when}
	}
}

// pod adds a Pod on a node, with the work's container in the given state.
func pod(phase corev1.PodPhase, state corev1.ContainerState, changes ...func(*corev1.Pod)) func(*Input) {
	return func(in *Input) {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "t-x"}, Spec: corev1.PodSpec{NodeName: "node1"}, Status: corev1.PodStatus{Phase: phase}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Hour)}}},
			{Name: "work", Image: "example.test/image", State: state},
		}
		for _, change := range changes {
			change(&p)
		}
		in.Pods = append(in.Pods, p)
	}
}

func terminated(code int32, reason string, finished time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: at(-50 * time.Second), FinishedAt: at(finished)}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

var runningState = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-30 * time.Second)}}

func podReason(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = reason, message }
}

func podCondition(t corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: status, Reason: reason, Message: message})
	}
}

// stoppedPod gives a Pod the deadline of a stop, onlyWork leaves it no other container.
func stoppedPod(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) }
func onlyWork(p *corev1.Pod)   { p.Status.ContainerStatuses = p.Status.ContainerStatuses[1:] }

func madeAt(offset time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = at(offset) }
}

func deadline(d string) func(*Input) {
	return job(func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationStartDeadline] = d })
}

// retries makes the Job one that may try so often again and has counted so many failures.
func retries(limit, failed int32) func(*Input) {
	return job(func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Status.Failed = ptr.To(limit), failed })
}

// warned adds a warning about the Job.
func warned(note string) func(*Input) {
	return func(in *Input) { warnedOf(in.Job.UID, note)(in) }
}

func warnedOf(uid types.UID, note string) func(*Input) {
	return func(in *Input) {
		e := eventsv1.Event{Type: corev1.EventTypeWarning, Note: note, EventTime: metav1.NewMicroTime(now)}
		e.Regarding.UID = uid
		in.Events = append(in.Events, e)
	}
}

// waits is since when the work has been seen to wait for a Pod.
func waits(offset time.Duration) func(*Input) {
	return func(in *Input) { in.Waiting = now.Add(offset) }
}

func TestDecide(t *testing.T) {
	gone := func(in *Input) { in.Job, in.JobGone = nil, true }
	immediate := func(in *Input) { in.Immediate = true }
	suspend := job(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
	for name, tc := range map[string]struct {
		in     *Input
		state  v1alpha1.TaskState
		reason string
		words  string
		stop   bool
	}{
		"no Pod yet": {given(), "working", "Scheduling", "no Pod yet", false},
		"no node": {given(pod(corev1.PodPending, waiting("", ""), func(p *corev1.Pod) { p.Spec.NodeName = "" },
			podCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/1 nodes are available: insufficient memory"))), "working", "Scheduling", "insufficient memory", false},
		"preparing":              {given(pod(corev1.PodPending, waiting("ContainerCreating", ""))), "working", "Pulling", "the node node1 prepares", false},
		"pull fails":             {given(pod(corev1.PodPending, waiting("ErrImagePull", "no such host"))), "working", "Pulling", "no such host", false},
		"running":                {given(pod(corev1.PodRunning, runningState)), "working", "Running", "running on node1", false},
		"ended, Job not yet":     {given(pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second))), "working", "Finishing", "", false},
		"mesh container runs on": {given(pod(corev1.PodRunning, terminated(0, "Completed", -time.Second))), "working", "Finishing", "", false},
		"attempt failed": {given(job(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](2); j.Status.Failed = 1 }),
			pod(corev1.PodFailed, terminated(1, "Error", -time.Second))), "working", "Retrying", "exit code 1", false},
		"suspended": {given(suspend), "working", "Queued", "suspended", false},
		"in a queue": {given(suspend, job(func(j *batchv1.Job) { j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "gpu"} }), deadline("1s")),
			"working", "Queued", "the queue gpu", false},

		"pull failed for too long": {given(deadline("30s"), pod(corev1.PodPending, waiting("ImagePullBackOff", "no such host"))),
			"failed", "ImagePullFailed", "within 30s (startDeadline): the image example.test/image", true},
		"no node for too long": {given(deadline("30s"), pod(corev1.PodPending, waiting("", ""), func(p *corev1.Pod) { p.Spec.NodeName = "" },
			podCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "insufficient cpu"))), "failed", "Unschedulable", "insufficient cpu", true},
		"no config for too long": {given(deadline("30s"), pod(corev1.PodPending, waiting("CreateContainerConfigError", `configmap "x" not found`))),
			"failed", "StartFailed", `configmap "x" not found`, true},
		"resumed lately":             {given(deadline("30s"), job(func(j *batchv1.Job) { j.Status.StartTime = ptr.To(at(-time.Second)) })), "working", "Scheduling", "", false},
		"started in time, runs long": {given(deadline("30s"), pod(corev1.PodRunning, runningState)), "working", "Running", "", false},

		"completed":                 {given(jobCondition(batchv1.JobComplete, "CompletionsReached"), pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second))), "completed", "Succeeded", "", false},
		"success is only announced": {given(jobCondition(batchv1.JobSuccessCriteriaMet, ""), pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second))), "working", "Finishing", "", false},
		"failure is only announced": {given(jobCondition(batchv1.JobFailureTarget, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(1, "Error", -time.Second))), "working", "Finishing", "", false},
		"exit code":                 {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(3, "Error", -time.Second))), "completed", "ToolError", "exit code 3", false},
		"out of memory": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(137, "OOMKilled", -time.Second), func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "work", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}
		})), "completed", "OOMKilled", "its limit of 64Mi", false},
		"the last of several attempts": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), job(func(j *batchv1.Job) { j.Status.Failed = 3 }),
			pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second)), pod(corev1.PodFailed, terminated(4, "Error", -time.Second))), "completed", "ToolError", "exit code 4, at the last of 3 attempts", false},
		"Job's deadline": {given(jobCondition(batchv1.JobFailed, "DeadlineExceeded"), job(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) }),
			pod(corev1.PodFailed, terminated(143, "Error", -time.Second))), "failed", "DeadlineExceeded", "time limit (activeDeadlineSeconds) of 60 s", false},
		"Pod's deadline": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(143, "Error", -time.Second), podReason("DeadlineExceeded", ""))), "failed", "DeadlineExceeded", "reached its time limit", false},
		"evicted":        {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(137, "Error", -time.Second), podReason("Evicted", "low on memory"))), "failed", "Evicted", "low on memory", false},
		"preempted": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(143, "Error", -time.Second),
			podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler", "a more important Pod"))), "failed", "Evicted", "a more important Pod", false},
		"node lost": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, runningState,
			podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByTaintManager", "tainted"))), "failed", "NodeLost", "the node node1", false},
		"init container failed": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, waiting("PodInitializing", ""), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "before", State: terminated(2, "Error", -time.Second)}}
		})), "failed", "StartFailed", "the init container before ended with exit code 2", false},
		"nothing is left of it": {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded")), "failed", "JobFailed", "none of its Pods is left", false},
		"Job deleted":           {given(gone), "failed", "JobDeleted", "was deleted", false},
		"somebody else's Job":   {given(job(func(j *batchv1.Job) { j.OwnerReferences = nil })), "failed", "JobConflict", "does not belong", false},

		"cancelled while it runs":          {given(cancelAt(0), pod(corev1.PodRunning, runningState)), "working", "Cancelling", "", true},
		"cancelled while it runs, at once": {given(cancelAt(0), immediate, pod(corev1.PodRunning, runningState)), "cancelled", "Cancelled", "by ann", true},
		"cancelled before it starts":       {given(cancelAt(0), pod(corev1.PodPending, waiting("ContainerCreating", ""))), "cancelled", "Cancelled", "by ann", true},
		"cancelled in a queue":             {given(cancelAt(0), suspend), "cancelled", "Cancelled", "by ann", true},
		"cancelled and ended": {given(cancelAt(-9*time.Second), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"),
			pod(corev1.PodFailed, terminated(143, "Error", -time.Second), podReason("DeadlineExceeded", ""))), "cancelled", "Cancelled", "by ann", false},
		"completed in spite of the cancellation": {given(cancelAt(-9*time.Second), jobCondition(batchv1.JobComplete, ""), pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second))), "completed", "Succeeded", "", false},
		"had failed before the cancellation": {given(cancelAt(-time.Second), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"),
			pod(corev1.PodFailed, terminated(3, "Error", -9*time.Second))), "completed", "ToolError", "exit code 3", false},
		"cancelled by a clock that is ahead": {given(cancelAt(time.Hour), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(143, "Error", -time.Second),
			podReason("DeadlineExceeded", ""), stoppedPod, onlyWork)), "cancelled", "Cancelled", "by ann", false},
		"work was done before the cancellation, a side container ran on": {given(cancelAt(-time.Second), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(0, "Completed", -9*time.Second),
			podReason("DeadlineExceeded", ""), stoppedPod)), "completed", "Succeeded", "", false},
		"work is done, a side container failed":      {given(jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), pod(corev1.PodFailed, terminated(0, "Completed", -time.Second))), "completed", "Succeeded", "", false},
		"Pod deleted, the next attempt not made yet": {given(deadline("30s"), started(-50*time.Second), waits(-20*time.Second)), "working", "Scheduling", "", false},
		"Pod deleted, the next attempt cannot be made": {given(deadline("30s"), started(-50*time.Second), waits(-40*time.Second), warned("exceeded quota: team")), "failed", "StartFailed",
			"could not start again within 30s (startDeadline): the API server does not take the Job's Pod: exceeded quota: team", true},
		"failed, the next attempt is due": {given(deadline("30s"), retries(2, 2), pod(corev1.PodFailed, terminated(1, "Error", -45*time.Second)), waits(-45*time.Second), warned("exceeded quota: team")), "working", "Retrying",
			"attempt 1 of 3 ended with exit code 1; the API server does not take the Job's Pod: exceeded quota: team", false},
		"failed, the next attempt cannot be made": {given(deadline("30s"), started(-50*time.Second), retries(2, 2), pod(corev1.PodFailed, terminated(1, "Error", -51*time.Second)), waits(-51*time.Second), warned("exceeded quota: team")), "failed", "StartFailed",
			"could not start again within 30s (startDeadline): the API server does not take the Job's Pod: exceeded quota: team", true},
		"failed, and its first start had been hindered": {given(deadline("30s"), retries(2, 1), pod(corev1.PodFailed, terminated(1, "Error", -45*time.Second), madeAt(time.Second)), waits(0), warned("exceeded quota: team")), "working", "Retrying", "the Job may try again", false},
		"failed long ago, which nobody saw":             {given(deadline("30s"), started(-time.Hour), retries(2, 1), pod(corev1.PodFailed, terminated(1, "Error", -time.Hour)), waits(0)), "working", "Retrying", "the Job may try again", false},
		"failed for the last time, and not counted yet": {given(deadline("30s"), started(-time.Hour), retries(1, 1), pod(corev1.PodFailed, terminated(1, "Error", -2*time.Hour)), pod(corev1.PodFailed, terminated(3, "Error", -time.Hour)), waits(-time.Hour)), "working", "Finishing", "", false},
		"failed, and a policy may have ignored more": {given(deadline("30s"), started(-time.Hour), retries(2, 1), job(func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{} }),
			pod(corev1.PodFailed, terminated(1, "Error", -time.Hour)), waits(-9*time.Minute)), "working", "Retrying", "", false},
		"failed after a question, the next attempt cannot be made": {given(deadline("30s"), started(-50*time.Second), retries(2, 1), pod(corev1.PodFailed, terminated(1, "Error", -51*time.Second), uid("a")), waits(-51*time.Second),
			report("a", asks("k-1", "Approve?"))), "failed", "StartFailed", "", true},
		"failed, its Job is about to end": {given(deadline("30s"), retries(2, 1), jobCondition(batchv1.JobFailureTarget, "PodFailurePolicy"), pod(corev1.PodFailed, terminated(1, "Error", -51*time.Second))), "working", "Retrying", "", false},
		"one of many failed long ago":     {given(deadline("30s"), retries(6, 1), job(func(j *batchv1.Job) { j.Spec.Completions = ptr.To[int32](3) }), pod(corev1.PodFailed, terminated(1, "Error", -51*time.Second))), "working", "Retrying", "", false},
		"next attempt is starting": {given(deadline("30s"), job(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](3) }), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second)),
			pod(corev1.PodPending, waiting("ContainerCreating", ""), madeAt(-5*time.Second))), "working", "Pulling", "", false},
		"next attempt cannot start": {given(deadline("30s"), job(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](3) }), pod(corev1.PodFailed, terminated(1, "Error", -50*time.Second)),
			pod(corev1.PodPending, waiting("ImagePullBackOff", "no such host"), madeAt(-40*time.Second))), "failed", "ImagePullFailed", "no such host", true},
		"cancelled, Job deleted": {given(gone, cancelAt(0)), "cancelled", "Cancelled", "by ann", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if got.State != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) || got.Stop != tc.stop {
				t.Errorf("got %s/%s stop %v: %s", got.State, got.Reason, got.Stop, got.Message)
			}
			if (got.State == v1alpha1.TaskFailed) != (got.Error != nil) {
				t.Errorf("state %s with error %v", got.State, got.Error)
			}
			if got.State == v1alpha1.TaskCompleted && got.Output == nil {
				t.Error("completed without output")
			}
		})
	}
}

func TestResultOfAnIndexedJobIsIndexZeros(t *testing.T) {
	ended := terminated(0, "Completed", -time.Second)
	v := Decide(given(jobCondition(batchv1.JobComplete, ""), pod(corev1.PodSucceeded, ended, index("1")), pod(corev1.PodSucceeded, ended, index("0")), pod(corev1.PodSucceeded, ended, index("2"))))
	if v.Output.Pod.Name != "t-0" {
		t.Errorf("result of %s", v.Output.Pod.Name)
	}
}

func TestVerdictIsLookedAtAgainWhenTheStartDeadlinePasses(t *testing.T) {
	v := Decide(given(deadline("90s"), pod(corev1.PodPending, waiting("ContainerCreating", ""))))
	if v.Recheck != 30*time.Second {
		t.Errorf("recheck in %s", v.Recheck)
	}
}

func TestSettledMeansThatThePodsAccountForTheJob(t *testing.T) {
	ended := terminated(0, "Completed", -time.Second)
	succeeded := job(func(j *batchv1.Job) { j.Status.Succeeded = 1 })
	for name, tc := range map[string]struct {
		in   *Input
		want bool
	}{
		"all seen":         {given(succeeded, pod(corev1.PodSucceeded, ended)), true},
		"none seen":        {given(succeeded), false},
		"seen running":     {given(succeeded, pod(corev1.PodRunning, runningState)), false},
		"one of two seen":  {given(succeeded, job(func(j *batchv1.Job) { j.Status.Failed = 1 }), pod(corev1.PodSucceeded, ended)), false},
		"nothing to count": {given(), true},
	} {
		if got := Settled(tc.in.Job, tc.in.Pods); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
