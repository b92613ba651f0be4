package decide

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestMessagesAreOneBoundedLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"one line":                      "one line",
		" two\r\n\tlines \u2028 three ": "two lines three",
		"\x1b[31mred\x00":               "[31mred",
		"half \xff":                     "half \uFFFD",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	long := OneLine(strings.Repeat("é\n", 4000))
	if len(long) > maxWords || len(long) < maxWords-8 || !utf8.ValidString(long) || !strings.HasSuffix(long, "…") {
		t.Errorf("%d bytes, valid %v", len(long), utf8.ValidString(long))
	}
}

func TestSpansAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Second: "5s", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", time.Hour: "1h", 70 * time.Minute: "1h10m", 10 * time.Minute: "10m"} {
		if got := span(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

// What a recording does not catch, because it passes too fast or needs what the cluster of the records does not have.
func TestWordsOfWhatPassesFast(t *testing.T) {
	volumes := podCondition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")
	ignored := job(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) })
	stop := pod(corev1.PodFailed, terminated(143, "Error", -time.Second), podReason("DeadlineExceeded", ""), stoppedPod)
	for name, tc := range map[string]struct {
		in             *Input
		reason, words  string
		stop, terminal bool
	}{
		"pulls": {given(pod(corev1.PodPending, waiting("ContainerCreating", ""), volumes)), "Pulling",
			"the node node1 pulls the image example.test/image, where it does not have it, and starts the container work", false, false},
		"its namespace goes": {given(func(in *Input) { in.Job, in.JobGone, in.NamespaceEnding = nil, true, true; in.Task.Namespace = "team" }), "JobDeleted",
			"the namespace team is being deleted, and the Job t was deleted with it", false, true},
		"its Events could not be read yet": {given(deadline("30s"), func(in *Input) { in.Unread = true }), "Scheduling", "the Job has no Pod yet", false, false},
		"its failed Pod waits for the next, for long": {given(deadline("1m"), retries(2, 1), waits(-40*time.Second),
			pod(corev1.PodFailed, waiting("PodInitializing", ""), madeAt(-50*time.Second), func(p *corev1.Pod) {
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "before", State: terminated(2, "Error", -40*time.Second)}}
			})), "Retrying", "attempt 1 of 3 failed: the tool never ran: the init container before ended with exit code 2; the Job may try again", false, false},
		"stopped, the Job is about to end":     {given(ignored, cancelAt(-9*time.Second), stop), "Cancelling", "", true, false},
		"stopped, the Job does not end":        {given(ignored, cancelAt(-9*time.Second), stop, func(in *Input) { in.Now = now.Add(time.Minute) }), "Cancelled", "by ann", true, true},
		"stopped, the Job makes a further Pod": {given(ignored, cancelAt(-9*time.Second), stop, pod(corev1.PodPending, waiting("ContainerCreating", ""))), "Cancelled", "by ann", true, true},
		"exit code 0 at the Job's time limit": {given(jobCondition(batchv1.JobFailureTarget, "DeadlineExceeded"), jobCondition(batchv1.JobFailed, "DeadlineExceeded"),
			job(func(j *batchv1.Job) {
				j.Status.Conditions[0].LastTransitionTime = at(-5 * time.Second)
				j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
			}), pod(corev1.PodFailed, terminated(0, "Completed", -3*time.Second))), "DeadlineExceeded", "time limit", false, true},
		"exit code 0 before the Job's time limit": {given(jobCondition(batchv1.JobFailureTarget, "DeadlineExceeded"), jobCondition(batchv1.JobFailed, "DeadlineExceeded"),
			job(func(j *batchv1.Job) { j.Status.Conditions[0].LastTransitionTime = at(-5 * time.Second) }), pod(corev1.PodFailed, terminated(0, "Completed", -9*time.Second))), "Succeeded", "", false, true},
		"done, then a container beside it failed, attempts left": {given(job(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](2) }),
			pod(corev1.PodFailed, terminated(0, "Completed", -9*time.Second))), "Succeeded", "", true, true},
		"done, and a container beside it has not started": {given(pod(corev1.PodPending, terminated(0, "Completed", -9*time.Second), besideIs(waiting("ErrImagePull", "no such host")))), "Finishing",
			"the tool has ended; the container mesh beside it does not run (ErrImagePull: no such host); the Pod is asked to end at", false, false},
		"done, and the image of a container beside it is tried again later": {given(pod(corev1.PodPending, terminated(0, "Completed", -9*time.Second), besideIs(waiting("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: no such host`)))), "Finishing",
			"the tool has ended; the container mesh beside it does not run (ErrImagePull: no such host); the Pod is asked to end at", false, false},
		"done, and a container beside it cannot start": {given(pod(corev1.PodPending, terminated(0, "Completed", -19*time.Second), besideIs(waiting("ErrImagePull", "no such host")))), "Succeeded",
			"the container mesh beside it does not run (ErrImagePull: no such host); the Pod is asked to end", true, true},
		"done, and a container beside it crashes again and again": {given(pod(corev1.PodRunning, terminated(3, "Error", -19*time.Second), besideIs(waiting("CrashLoopBackOff", "")))), "ToolError",
			"the container mesh beside it does not run (CrashLoopBackOff); the Pod is asked to end", true, true},
		"a sidecar does not pass its startup probe": {given(pod(corev1.PodPending, waiting("PodInitializing", ""), volumes, sidecarNotUp, uid("a")), probed("a", "Startup probe failed: no route")), "Pulling",
			"the sidecar container proxy has not passed its startup probe; the tool starts after it: Startup probe failed: no route", false, false},
		"an old Pod on a lost node, a newer one runs": {given(func(in *Input) { in.Node = lostNode("node1") }, pod(corev1.PodRunning, runningState, deletedAt(-time.Hour)),
			pod(corev1.PodRunning, runningState, func(p *corev1.Pod) { p.Spec.NodeName = "node2" })), "Running", "the tool is running on node2", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.words) || got.Stop != tc.stop || got.State.Terminal() != tc.terminal {
				t.Errorf("got %s/%s stop %v: %s", got.State, got.Reason, got.Stop, got.Message)
			}
		})
	}
}

// besideIs puts the container beside the work's into that state.
func besideIs(state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = state }
}

// probed adds the Event of a probe that failed, and that of what the node did then.
func probed(uid types.UID, note string) func(*Input) {
	return func(in *Input) {
		warnedOf(uid, note)(in)
		in.Events[0].Reason = "Unhealthy"
		warnedOf(uid, "Back-off restarting failed container")(in)
	}
}

func sidecarNotUp(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", State: runningState, Started: ptr.To(false)}}
	besideIs(waiting("PodInitializing", ""))(p)
}

func lostNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
}

func TestOfWarningsTheLastSpecificOneCounts(t *testing.T) {
	event := func(offset time.Duration, kind, note string) eventsv1.Event {
		e := eventsv1.Event{Type: kind, Note: note, DeprecatedLastTimestamp: at(offset)}
		e.Regarding.UID = "pod"
		return e
	}
	general := "Unable to attach or mount volumes: unmounted volumes=[a]"
	for name, tc := range map[string]struct {
		events []eventsv1.Event
		want   string
	}{
		"none":                     {nil, ""},
		"the newest":               {[]eventsv1.Event{event(-time.Second, "Warning", "new"), event(-time.Minute, "Warning", "old")}, "new"},
		"a warning":                {[]eventsv1.Event{event(-time.Minute, "Warning", "wrong"), event(-time.Second, "Normal", "fine")}, "wrong"},
		"not the one that sums up": {[]eventsv1.Event{event(-time.Minute, "Warning", "a is not there"), event(-time.Second, "Warning", general)}, "a is not there"},
		"nor where it comes first": {[]eventsv1.Event{event(-time.Second, "Warning", general), event(-time.Minute, "Warning", "a is not there")}, "a is not there"},
		"but where it is alone":    {[]eventsv1.Event{event(-time.Second, "Warning", general)}, general},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Events: tc.events}
			if got := in.warning("pod"); got != tc.want {
				t.Errorf("got %q", got)
			}
			if got := in.warning("another"); got != "" {
				t.Errorf("of another object: %q", got)
			}
		})
	}
}

func TestEventsAreLookedAtAgainOnlyNowAndThen(t *testing.T) {
	in := given(deadline("10m"), job(func(j *batchv1.Job) { j.UID = "job-uid" }))
	if in.Now = at(-time.Minute + 2*time.Second).Time; WhatElse(in) != (Look{}) {
		t.Error("looks at once")
	}
	if v := Decide(in); v.Recheck != 3*time.Second {
		t.Errorf("looks again in %s, not when five seconds have passed", v.Recheck)
	}
	in.Now = now
	if v := Decide(in); v.Recheck != lookAgain {
		t.Errorf("looks again in %s", v.Recheck)
	}
	if EventsHold(in, now.Add(-lookAgain)) || !EventsHold(in, now.Add(-lookAgain+time.Second)) {
		t.Error("Events do not hold for half a minute")
	}
	in.Job.Annotations[v1alpha1.AnnotationStartDeadline] = "50s"
	if EventsHold(in, now.Add(-11*time.Second)) || !EventsHold(in, now.Add(-9*time.Second)) {
		t.Error("Events from before the start deadline decide on what is given up")
	}
}
