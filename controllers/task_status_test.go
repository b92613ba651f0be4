package controllers

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// What a Pod reports after the decision and before the write changes the decision.
func TestAReportIsNotLostToTheEnd(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns", UID: "task-uid"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(task).WithObjects(task).Build()
	r := &TaskReconciler{Client: c, Events: events.NewFakeRecorder(10)}
	var decidedFrom, stored v1alpha1.McpTask
	for _, into := range []*v1alpha1.McpTask{&decidedFrom, &stored} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), into); err != nil {
			t.Fatal(err)
		}
	}
	stored.Status.Runtime = []v1alpha1.RuntimeReport{{PodUID: "a", Outcome: "cancelled"}}
	if err := c.Status().Update(t.Context(), &stored); err != nil {
		t.Fatal(err)
	}
	seen := &decide.Input{Task: &decidedFrom, JobGone: true, Now: noon}
	verdict := decide.Decide(seen)
	if _, err := r.conclude(t.Context(), &decidedFrom, seen, &verdict); !apierrors.IsConflict(err) {
		t.Errorf("the old decision is written: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), &stored); err != nil {
		t.Fatal(err)
	}
	if stored.Status.State.Terminal() || len(stored.Status.Runtime) != 1 {
		t.Fatalf("status %+v", stored.Status)
	}
	seen.Task = &stored
	if _, err := r.conclude(t.Context(), &stored, seen, &verdict); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), &stored); err != nil {
		t.Fatal(err)
	}
	if !stored.Status.State.Terminal() || stored.Status.Runtime != nil {
		t.Errorf("status %+v", stored.Status)
	}
}

func TestWhatOnlyTellsHowFarTheWorkIsWaits(t *testing.T) {
	at := func(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: noon.Add(d)} }
	scheduling := v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Reason: v1alpha1.ReasonScheduling, JobRef: &v1alpha1.JobReference{Name: "job"}}
	pulling, running, asking, queued := scheduling, scheduling, scheduling, scheduling
	pulling.Reason = v1alpha1.ReasonPulling
	running.Reason, running.StartedAt = v1alpha1.ReasonRunning, &noonSeconds
	asking.InputRequests = []v1alpha1.InputRequest{question("a-1")}
	queued.Reason, queued.JobRef = v1alpha1.ReasonQueued, nil
	further := running
	further.Progress = &v1alpha1.Progress{Current: "2"}
	for name, tc := range map[string]struct {
		before, after v1alpha1.McpTaskStatus
		since         time.Duration
		want          time.Duration
	}{
		"the Job is made":                {queued, scheduling, time.Millisecond, 0},
		"the node prepares the Pod":      {scheduling, pulling, 3 * time.Second, 7 * time.Second},
		"and goes on preparing it":       {scheduling, pulling, 10 * time.Second, 0},
		"the work starts soon":           {scheduling, running, time.Second, time.Second},
		"the work starts":                {scheduling, running, 2 * time.Second, 0},
		"progress":                       {running, further, 500 * time.Millisecond, 1500 * time.Millisecond},
		"another attempt":                {running, scheduling, time.Second, time.Second},
		"why there is no Job, once more": {queued, queued, time.Second, time.Second},
		"a question":                     {running, asking, 0, 0},
		"an end":                         {running, v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted}, 0, 0},
	} {
		before := &v1alpha1.McpTask{Status: tc.before}
		before.Status.LastUpdatedAt = at(-tc.since)
		if got := coalesceFor(before, &tc.after, &decide.Input{Now: noon}); max(got, 0) != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// The API server is not asked on the word of a cache that is behind this controller's own write.
func TestAnOldVersionIsNotDecidedFrom(t *testing.T) {
	var w written
	task := func(uid, version string) *v1alpha1.McpTask {
		return &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
	}
	if w.behind(task("a", "5")) {
		t.Error("nothing was written yet")
	}
	w.note(task("a", "9"))
	for version, want := range map[string]bool{"8": true, "9": false, "10": false} {
		if w.behind(task("a", version)) != want {
			t.Errorf("version %s: behind should be %v", version, want)
		}
	}
	if w.behind(task("b", "5")) {
		t.Error("another task was written")
	}
}
