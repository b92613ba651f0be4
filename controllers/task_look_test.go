package controllers

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// eventReader counts how often Events are read, and of what.
type eventReader struct {
	client.Reader
	reads    int
	selector fields.Selector
}

func (r *eventReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	r.reads++
	r.selector = o.FieldSelector
	list.(*eventsv1.EventList).Items = []eventsv1.Event{{Note: "exceeded quota"}}
	return nil
}

// However often a stuck task is looked at, and however many are stuck: Events are read once in half a minute of each, and not too
// many at one time.
func TestEventsAreReadSeldom(t *testing.T) {
	live := &eventReader{}
	r := &TaskReconciler{Live: live, eventReads: rate.NewLimiter(0, 2)}
	stuck := func(name string, now time.Time) *decide.Input {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-the-job", CreationTimestamp: metav1.NewTime(noon)}}
		return &decide.Input{Task: &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: name}}, Job: job, Now: now}
	}
	look := func(in *decide.Input) *decide.Input {
		t.Helper()
		if err := r.lookFurther(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		return in
	}
	look(stuck("a", noon.Add(time.Second)))
	if live.reads != 0 {
		t.Error("a task that has just begun is looked into")
	}
	for i := range 20 {
		if in := look(stuck("a", noon.Add(10*time.Second+time.Duration(i)*time.Second))); len(in.Events) != 1 || in.Unread {
			t.Fatalf("the Events are forgotten: %+v", in)
		}
	}
	if want := (fields.Set{"regarding.uid": "uid-of-the-job", "type": "Warning"}); live.reads != 1 || !live.selector.Matches(want) || live.selector.Matches(fields.Set{}) {
		t.Errorf("%d reads of %s", live.reads, live.selector)
	}
	look(stuck("a", noon.Add(41*time.Second)))
	if live.reads != 2 {
		t.Errorf("%d reads after half a minute", live.reads)
	}
	if in := look(stuck("b", noon.Add(time.Minute))); !in.Unread || live.reads != 2 {
		t.Errorf("%d reads although too many were", live.reads)
	}
	ready := stuck("a", noon.Add(42*time.Second))
	ready.Job = nil
	look(ready)
	if len(r.glances.of) != 0 {
		t.Errorf("what was read of a task that is not stuck is kept: %v", r.glances.of)
	}
}
