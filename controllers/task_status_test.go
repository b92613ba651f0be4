package controllers

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
