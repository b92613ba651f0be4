package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// The time for which work waits for a Pod begins when that is seen, and anew with each wait.
func TestAWaitBeginsWhenItIsSeen(t *testing.T) {
	var w waits
	key := types.NamespacedName{Namespace: "ns", Name: "t"}
	failed := corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	in := &decide.Input{Task: &v1alpha1.McpTask{}, Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "job"}, Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](2)}}}
	in.Task.Status.StartedAt = &metav1.Time{Time: noon.Add(-time.Hour)}
	for i, step := range []struct {
		what   string
		change func()
		want   time.Duration // after noon; -1 is no wait
	}{
		{"it has no Pod", func() {}, 0},
		{"it still has none", func() {}, 0},
		{"it has one", func() { in.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "a"}}} }, -1},
		{"which fails", func() { in.Pods = []corev1.Pod{failed} }, 3},
		{"and is gone", func() { in.Pods = nil }, 4},
		{"it is suspended", func() { in.Job.Spec.Suspend = ptr.To(true) }, -1},
		{"and goes on, when the Pod that was given back has gone", func() { in.Job.Spec.Suspend, in.Ending = nil, &failed }, -1},
		{"which it has", func() { in.Ending = nil }, 7},
		{"its Job has announced its end", func() {
			in.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}
		}, -1},
	} {
		step.change()
		in.Now = noon.Add(time.Duration(i) * time.Second)
		got, want := w.see(key, in), noon.Add(step.want*time.Second)
		if step.want < 0 {
			want = time.Time{}
		}
		if !got.Equal(want) {
			t.Errorf("%s: since %s, want %s", step.what, got, want)
		}
	}
	if len(w.of) != 0 {
		t.Errorf("left: %v", w.of)
	}
}
