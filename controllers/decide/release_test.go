package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// giving makes the Job one whose Pod is given back while a question is open.
var giving = job(func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationWhileWaiting] = "Release" })

// releasedJob is suspended since the Pod was given back with so many answers.
func releasedJob(pod types.UID, answers int) func(*Input) {
	return func(in *Input) {
		giving(in)
		suspend(in)
		mark(in, &Release{Pod: pod, Answers: answers})
	}
}

// resumedJob goes on, for an answer has come.
func resumedJob(pod types.UID, answers int) func(*Input) {
	return func(in *Input) {
		giving(in)
		in.Job.Spec.Suspend = ptr.To(false)
		mark(in, &Release{Pod: pod, Answers: answers, Resumed: true})
	}
}

func mark(in *Input, release *Release) {
	text, err := release.Text()
	if err != nil {
		panic(err)
	}
	in.Job.Annotations[v1alpha1.AnnotationReleased] = text
}

// apart decides as the reconciler does, which takes the Pods that are no attempts out of the others.
func apart(in *Input) Verdict {
	var others []corev1.Pod
	in.Pods, others = Apart(in.Job, in.Pods)
	if len(others) > 0 {
		in.Ending = &others[len(others)-1]
	}
	return Decide(in)
}

// silentNode says that the node is not ready.
func silentNode(in *Input) {
	in.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: at(-time.Hour)}}}}
}

var suspend = job(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })

// told is when the Pod last told something.
func told(offset time.Duration) func(*v1alpha1.RuntimeReport) {
	return func(r *v1alpha1.RuntimeReport) { r.ReportedAt = ptr.To(metav1.NewMicroTime(now.Add(offset))) }
}

// collected are questions that the task has had for that long.
func collected(offset time.Duration, keys ...string) func(*Input) {
	return func(in *Input) {
		for _, key := range keys {
			in.Task.Status.InputRequests = append(in.Task.Status.InputRequests, v1alpha1.InputRequest{Key: key, RequestedAt: ptr.To(at(offset))})
		}
	}
}

func answeredAt(key string, offset time.Duration) func(*Input) {
	return func(in *Input) {
		in.Task.Spec.InputResponses = append(in.Task.Spec.InputResponses, v1alpha1.InputResponse{Key: key, AnsweredAt: ptr.To(at(offset))})
	}
}

func TestAPodThatOnlyWaitsIsGivenBack(t *testing.T) {
	runs := pod(corev1.PodRunning, runningState, uid("a"))
	asked := report("a", asks("k-1", "Approve?"), told(-time.Minute))
	both := report("a", asks("k-1", "Approve?"), asks("k-2", "Sure?"), told(-time.Minute))
	for name, tc := range map[string]struct {
		in      *Input
		release string // what is written on the Job
		recheck time.Duration
	}{
		"long enough":                      {given(giving, runs, asked, collected(-time.Minute, "k-1")), `{"pod":"a","answers":0}`, 0},
		"not for so long":                  {given(giving, runs, report("a", asks("k-1", "Approve?"), told(-4*time.Second))), "", 6 * time.Second},
		"collected a moment ago":           {given(giving, runs, asked, collected(-time.Second, "k-1")), "", 9 * time.Second},
		"a replay asks an old question":    {given(giving, runs, report("a", asks("k-1", "Approve?"), told(-time.Second)), collected(-time.Hour, "k-1")), "", 9 * time.Second},
		"it tells how far it is":           {given(giving, runs, report("a", asks("k-1", "Approve?"), progress("copying", "", "3", "9"), told(-2*time.Second)), collected(-time.Hour, "k-1")), "", 8 * time.Second},
		"one of two answered just now":     {given(giving, runs, both, collected(-time.Minute, "k-1", "k-2"), answeredAt("k-2", -3*time.Second)), "", 7 * time.Second},
		"one of two answered a while ago":  {given(giving, runs, both, collected(-time.Minute, "k-1", "k-2"), answeredAt("k-2", -30*time.Second)), `{"pod":"a","answers":1}`, 0},
		"answered by hand, without a time": {given(giving, runs, both, collected(-time.Minute, "k-1", "k-2"), answered("k-2")), `{"pod":"a","answers":1}`, 0},
		"an answer to nothing":             {given(giving, runs, asked, collected(-time.Minute, "k-1"), answered("k-9")), `{"pod":"a","answers":0}`, 0},
		"of a second Pod":                  {given(giving, attempts(1), pod(corev1.PodFailed, terminated(1, "Error", -9*time.Second), uid("z")), runs, asked, collected(-time.Minute, "k-1")), `{"pod":"a","answers":0}`, 0},
		"resumed by somebody else":         {given(releasedJob("a", 0), job(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }), runs, asked, collected(-time.Minute, "k-1")), "", 0},
		"resumed for an answer":            {given(resumedJob("a", 0), runs, both, collected(-time.Minute, "k-1", "k-2"), answered("k-2")), `{"pod":"a","answers":1}`, 0},
		"and answered since":               {given(releasedJob("a", 0), job(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }), runs, both, collected(-time.Minute, "k-1", "k-2"), answered("k-2")), `{"pod":"a","answers":1}`, 0},

		"a tool that holds":          {given(runs, asked), "", 0},
		"the result is handed over":  {given(giving, runs, report("a", asks("k-1", "Approve?"), told(-time.Minute), outcome(outcomeResult))), "", 0},
		"asked by an init container": {given(giving, pod(corev1.PodPending, waiting("PodInitializing", ""), uid("a")), asked), "", 0},
		"a Pod of an old bridge":     {given(giving, runs, report("a", asks("k-1", "Approve?"))), "", 0},
		"a Job of several Pods":      {given(giving, job(indexed), runs, asked), "", 0},
		"a Job of Kueue's":           {given(giving, job(func(j *batchv1.Job) { j.Labels = map[string]string{LabelQueue: "gpu"} }), runs, asked), "", 0},
		"a Job of somebody else's":   {given(giving, job(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }), runs, asked), "", 0},
		"suspended by somebody else": {given(giving, suspend, runs, asked), "", 0},
		"a Job that is failing":      {given(giving, jobCondition(batchv1.JobFailureTarget, "BackoffLimitExceeded"), runs, asked), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if got.State != v1alpha1.TaskInputRequired || got.Reason != v1alpha1.ReasonAwaitingInput {
				t.Fatalf("got %+v", got)
			}
			if tc.release == "" {
				if got.Release != nil || got.Recheck != tc.recheck || strings.Contains(got.Message, "no Pod") {
					t.Errorf("got %+v, release %v", got, got.Release)
				}
				return
			}
			if got.Release == nil {
				t.Fatalf("got %+v", got)
			}
			mark(tc.in, got.Release)
			if tc.in.Job.Annotations[v1alpha1.AnnotationReleased] != tc.release || !strings.HasPrefix(got.Message, "no Pod is kept until an answer comes: ") {
				t.Errorf("got %+v, release %v", got, got.Release)
			}
		})
	}
}

func TestATaskWithoutItsPodWaitsForAnAnswer(t *testing.T) {
	ending := pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second))
	exited := func(code int32) func(*Input) {
		return pod(corev1.PodRunning, terminated(code, "Completed", 0), uid("a"), deletedAt(-time.Second))
	}
	asked := report("a", asks("k-1", "Approve?"))
	both := report("a", asks("k-1", "Approve?"), asks("k-2", "Sure?"))
	life := func(ttl time.Duration) func(*Input) {
		return func(in *Input) {
			in.Task.CreationTimestamp, in.Task.Spec.TTL = at(-time.Minute), &metav1.Duration{Duration: ttl}
		}
	}
	for name, tc := range map[string]struct {
		in                   *Input
		state, reason, words string
		resume, stop         bool
	}{
		"the Pod is gone":            {given(releasedJob("a", 0), asked, collected(-time.Hour, "k-1")), "input_required", "AwaitingInput", "no Pod is kept until an answer comes: Approve?", false, false},
		"the Pod still runs":         {given(releasedJob("a", 0), pod(corev1.PodRunning, runningState, uid("a")), asked), "input_required", "AwaitingInput", "no Pod is kept", false, false},
		"the Pod is ending":          {given(releasedJob("a", 0), ending, asked), "input_required", "AwaitingInput", "no Pod is kept", false, false},
		"it exits with 0 on SIGTERM": {given(releasedJob("a", 0), exited(0), asked), "input_required", "AwaitingInput", "no Pod is kept", false, false},
		"it exits with 143":          {given(releasedJob("a", 0), exited(143), asked), "input_required", "AwaitingInput", "no Pod is kept", false, false},
		"it says that it was cancelled, and nobody has": {given(releasedJob("a", 0), exited(0), report("a", asks("k-1", "Approve?"), outcome(outcomeCancelled))),
			"input_required", "AwaitingInput", "no Pod is kept", false, false},
		"for longer than it may take to start": {given(releasedJob("a", 0), deadline("1s"), asked), "input_required", "AwaitingInput", "no Pod is kept", false, false},

		"answered":                    {given(releasedJob("a", 0), asked, collected(-time.Hour, "k-1"), answered("k-1")), "working", "Scheduling", "an answer has come", true, false},
		"answered while it ends":      {given(releasedJob("a", 0), ending, asked, collected(-time.Hour, "k-1"), answered("k-1")), "working", "Scheduling", "an answer has come", true, false},
		"one of two answered":         {given(releasedJob("a", 0), both, collected(-time.Hour, "k-1", "k-2"), answered("k-2")), "working", "Scheduling", "an answer has come", true, false},
		"one was answered before":     {given(releasedJob("a", 1), both, collected(-time.Hour, "k-1", "k-2"), answered("k-2")), "input_required", "AwaitingInput", "comes: Approve?", false, false},
		"the other is answered":       {given(releasedJob("a", 1), both, collected(-time.Hour, "k-1", "k-2"), answered("k-2"), answered("k-1")), "working", "Scheduling", "an answer has come", true, false},
		"an answer to nothing":        {given(releasedJob("a", 0), asked, collected(-time.Hour, "k-1"), answered("k-9")), "input_required", "AwaitingInput", "comes: Approve?", false, false},
		"asked when it was ending":    {given(releasedJob("a", 0), both, collected(-time.Hour, "k-1"), collected(-time.Second, "k-2"), answered("k-2")), "working", "Scheduling", "an answer has come", true, false},
		"nobody knows the question":   {given(releasedJob("a", 0)), "working", "Scheduling", "", true, false},
		"the mark cannot be read":     {given(releasedJob("a", 0), asked, job(func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationReleased] = "?" })), "working", "Scheduling", "", true, false},
		"suspended by somebody else":  {given(giving, suspend, asked, collected(-time.Hour, "k-1"), answered("k-1")), "working", "Queued", "suspended", false, false},
		"its node is silent":          {given(releasedJob("a", 0), silentNode, pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Hour)), asked), "input_required", "AwaitingInput", "no Pod is kept", false, false},
		"resumed, the Pod still ends": {given(resumedJob("a", 0), started(-time.Hour), known("a"), ending, asked, answered("k-1")), "working", "Scheduling", "when the Pod t-x, which was given back, has ended", false, false},
		"resumed, its node is silent": {given(resumedJob("a", 0), started(-time.Hour), known("a"), silentNode, pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Hour)), asked, answered("k-1")),
			"working", "Scheduling", "has not been ready since", false, false},
		"resumed before its Pod was told": {given(resumedJob("a", 0), known("a"), pod(corev1.PodRunning, runningState, uid("a")), asked, answered("k-1")), "working", "Running", "", false, false},
		"resumed, then queued by another": {given(resumedJob("a", 0), suspend, known("a"), asked, answered("k-1")), "working", "Queued", "suspended", false, false},
		"resumed, then cancelled":         {given(resumedJob("a", 0), started(-time.Hour), known("a"), cancelAt(-time.Second), ending, asked, answered("k-1")), "cancelled", "Cancelled", "", false, true},
		"resumed, and the new Pod fails": {given(resumedJob("a", 0), jobCondition(batchv1.JobFailed, "BackoffLimitExceeded"), known("a", "b"), exited(0), pod(corev1.PodFailed, terminated(3, "Error", 0), uid("b")), asked, answered("k-1")),
			"completed", "ToolError", "exit code 3", false, false},
		"a result after the answer came":    {given(resumedJob("a", 0), known("a"), ending, answered("k-1"), report("a", asks("k-1", "Approve?"), outcome(outcomeResult))), "completed", "Succeeded", "", false, false},
		"a result of one that was replaced": {given(resumedJob("a", 0), known("a", "b"), answered("k-1"), report("a", asks("k-1", "Approve?"), outcome(outcomeResult)), pod(corev1.PodRunning, runningState, uid("b"))), "working", "Running", "", false, false},
		"resumed, and no Pod yet":           {given(giving, started(-time.Hour), waits(0), deadline("1s"), asked, collected(-time.Hour, "k-1"), answered("k-1")), "working", "Scheduling", "no Pod yet", false, false},
		"resumed, and no Pod for long":      {given(giving, started(-time.Hour), waits(-2*time.Second), deadline("1s"), asked, collected(-time.Hour, "k-1"), answered("k-1")), "failed", "StartFailed", "could not start again within 1s (startDeadline)", false, true},

		"a result was handed over": {given(releasedJob("a", 0), report("a", asks("k-1", "Approve?"), outcome(outcomeResult))), "completed", "Succeeded", "", false, false},
		"a result, then SIGTERM":   {given(releasedJob("a", 0), exited(143), report("a", asks("k-1", "Approve?"), outcome(outcomeResult))), "completed", "Succeeded", "", false, false},
		"an error was handed over": {given(releasedJob("a", 0), report("a", asks("k-1", "Approve?"), outcome(outcomeFailed))), "failed", "ToolFailed", "no stock", false, false},
		"a result before a cancel": {given(releasedJob("a", 0), cancelAt(-time.Second), report("a", asks("k-1", "Approve?"), outcome(outcomeResult))), "completed", "Succeeded", "", false, false},

		"cancelled":               {given(releasedJob("a", 0), cancelAt(-time.Second), asked), "cancelled", "Cancelled", "by ann", false, true},
		"cancelled while it ends": {given(releasedJob("a", 0), cancelAt(-time.Second), ending, asked), "cancelled", "Cancelled", "by ann", false, true},
		"its ttl has passed":      {given(releasedJob("a", 0), life(30*time.Second), asked), "failed", "Expired", "ttl of 30s", false, true},
		"its Job was deleted":     {given(asked, func(in *Input) { in.Job, in.JobGone = nil, true }), "failed", "JobDeleted", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := apart(tc.in)
			resume := got.Release != nil && got.Release.Resumed
			if string(got.State) != tc.state || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) || resume != tc.resume || got.Stop != tc.stop || got.Release != nil && !resume {
				t.Errorf("got %+v", got)
			}
			if got.Reason == v1alpha1.ReasonSucceeded && (got.Output == nil || got.Output.Reported == nil || !got.Output.Succeeded) {
				t.Errorf("output %+v", got.Output)
			}
		})
	}
}

// How a Pod ends that was given back is not how the work ends, also where its successor is not seen yet.
func TestAPodThatWasGivenBackIsNoAttempt(t *testing.T) {
	in := given(resumedJob("a", 0), job(func(j *batchv1.Job) { j.Status.Succeeded = 1 }), jobCondition(batchv1.JobComplete, ""),
		pod(corev1.PodSucceeded, terminated(0, "Completed", 0), uid("a"), deletedAt(-time.Second)))
	attempts, others := Apart(in.Job, in.Pods)
	if len(attempts) > 0 || len(others) != 1 || others[0].UID != "a" || Settled(in.Job, attempts) {
		t.Errorf("attempts %+v, others %+v", attempts, others)
	}
	running := given(resumedJob("a", 0), pod(corev1.PodRunning, runningState, uid("a")))
	if attempts, others := Apart(running.Job, running.Pods); len(attempts) != 1 || len(others) > 0 {
		t.Errorf("attempts %+v, others %+v", attempts, others)
	}
	for name, tc := range map[string]struct {
		in   *Input
		want bool
	}{
		"a deleted Pod, the Job shows nothing": {given(giving, pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second))), true},
		"of a tool that holds":                 {given(pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second), tracked)), false},
		"the Job controller has let it go":     {given(pod(corev1.PodRunning, runningState, uid("a"), deletedAt(-time.Second))), true},
		"it runs":                              {given(giving, pod(corev1.PodRunning, runningState, uid("a"))), false},
	} {
		if got := PerhapsApart(tc.in.Job, tc.in.Pods); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func started(offset time.Duration) func(*Input) {
	return func(in *Input) { in.Task.Status.StartedAt = ptr.To(at(offset)) }
}

// A Pod that comes back and asks on is given back again, as often as it takes, and each answer brings it back once.
func TestManyReleasesOfOneTask(t *testing.T) {
	in := given(giving)
	for round := range 20 {
		name := types.UID(fmt.Sprint("pod-", round))
		key := fmt.Sprintf("k-%d", round)
		in.Pods = nil
		pod(corev1.PodRunning, runningState, uid(name))(in)
		changes := []func(*v1alpha1.RuntimeReport){told(-time.Minute)}
		for earlier := range round + 1 {
			changes = append(changes, asks(fmt.Sprintf("k-%d", earlier), "Approve?"))
		}
		in.Task.Status.Runtime = nil
		report(name, changes...)(in)
		collected(-time.Minute, key)(in)
		got := Decide(in)
		if got.Release == nil || got.Release.Answers != round {
			t.Fatalf("round %d: got %+v", round, got)
		}
		suspend(in)
		mark(in, got.Release)
		in.Pods = nil
		if got := Decide(in); got.State != v1alpha1.TaskInputRequired || got.Release != nil {
			t.Fatalf("round %d, released: got %+v", round, got)
		}
		answered(key)(in)
		if got = Decide(in); got.Release == nil || !got.Release.Resumed {
			t.Fatalf("round %d, answered: got %+v", round, got)
		}
		in.Job.Spec.Suspend = ptr.To(false)
		mark(in, got.Release)
	}
}
