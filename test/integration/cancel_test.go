//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestCancelEndsTheWork(t *testing.T) {
	cancel := func(t *testing.T, task *v1alpha1.McpTask) {
		t.Helper()
		if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(fmt.Sprintf(`{"spec":{"cancel":{"requested":true,"by":"ann","at":%q}}}`, time.Now().UTC().Format(time.RFC3339)))); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("cooperative", func(t *testing.T) {
		task := calledTool(t, func(s *v1alpha1.McpToolSpec) { n := int32(3); s.JobTemplate.Spec.BackoffLimit = &n })
		pod := awaitPod(t, task)
		play(t, pod, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		cancel(t, task)
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
		eventually(t, "the Pod has a deadline and the Job no more attempts", func() error {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
			if err := read(t, job); err != nil {
				return err
			}
			if err := read(t, pod); err != nil {
				return err
			}
			if *job.Spec.BackoffLimit != 0 || pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds != 1 {
				return fmt.Errorf("backoffLimit %d, activeDeadlineSeconds %v", *job.Spec.BackoffLimit, pod.Spec.ActiveDeadlineSeconds)
			}
			return nil
		})
		play(t, pod, func(s *corev1.PodStatus) { ended(143, "partial")(s); s.Reason = "DeadlineExceeded" })
		awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
		if !strings.Contains(task.Status.Message, "by ann") {
			t.Errorf("message %q", task.Status.Message)
		}
	})
	t.Run("what finished first stands", func(t *testing.T) {
		task := calledTool(t, nil)
		pod := awaitPod(t, task)
		play(t, pod, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		cancel(t, task)
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
		play(t, pod, ended(0, "done"))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	})
	t.Run("immediate", func(t *testing.T) {
		task := calledTool(t, func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = v1alpha1.CancelModeImmediate })
		pod := awaitPod(t, task)
		play(t, pod, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		cancel(t, task)
		awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
		eventually(t, "the Pod has a deadline", func() error {
			if err := read(t, pod); err != nil {
				return err
			}
			if pod.Spec.ActiveDeadlineSeconds == nil {
				return fmt.Errorf("none")
			}
			return nil
		})
	})
	t.Run("before its Pod starts", func(t *testing.T) {
		task := calledTool(t, nil)
		awaitPod(t, task)
		cancel(t, task)
		awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
		eventually(t, "the Job is removed", func() error {
			if err := read(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%v", err)
			}
			return nil
		})
	})
}
