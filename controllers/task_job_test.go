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
	"github.com/mcptask/mcptask/controllers/lastwords"
)

// A Pod that went because its Job was suspended stays out when the Job has been resumed and the Pod's node deletes it for the last time,
// which looks like a deletion of now.
func TestAPodThatIsNoAttemptStaysNone(t *testing.T) {
	r := &TaskReconciler{LastWords: lastwords.New(nil)}
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "task", Namespace: "ns"}}
	now := time.Now().Truncate(time.Second)
	deleted := func(name string, at time.Time, grace int64) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name), Name: name, DeletionTimestamp: ptr.To(metav1.NewTime(at)), DeletionGracePeriodSeconds: &grace}}
	}
	suspended := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	resumed := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
		Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now)}}}}

	first := deleted("first", now.Add(20*time.Second), 30)
	if attempts, apart := r.apart(task, suspended, []corev1.Pod{first}); len(attempts) > 0 || len(apart) != 1 {
		t.Fatalf("suspended: attempts %d, apart %d", len(attempts), len(apart))
	}
	last := deleted("first", now.Add(5*time.Second), 0)
	if attempts, apart := r.apart(task, resumed, []corev1.Pod{last}); len(attempts) > 0 || len(apart) != 1 {
		t.Errorf("resumed: attempts %d, apart %d", len(attempts), len(apart))
	}
	other := deleted("other", now.Add(35*time.Second), 30)
	if attempts, apart := r.apart(task, resumed, []corev1.Pod{other}); len(attempts) != 1 || len(apart) > 0 {
		t.Errorf("another, deleted since: attempts %d, apart %d", len(attempts), len(apart))
	}
}
