//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func jobGone(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	eventually(t, "the Job is gone", func() error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
		if err := read(t, job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
}

// What stands in Events alone reaches the task: while it waits, and when it is given up.
func TestQuotaThatRefusesThePodIsNamed(t *testing.T) {
	ns := newNamespace(t)
	noMore(t, ns, "no-pods", corev1.ResourcePods)
	runController(t, ns)
	tool := newTool(ns, "tool")
	tool.Spec.StartDeadline = &metav1.Duration{Duration: 20 * time.Second}
	create(t, tool)
	awaitReady(t, tool)
	task := callOf(tool, `{"n":3}`)
	create(t, task)
	const words = "the API server does not take the Job's Pod: exceeded quota: no-pods, requested: pods=1, used: pods=0, limited: pods=0"
	eventually(t, "the task says why it waits", func() error {
		if err := read(t, task); err != nil {
			return err
		}
		if task.Status.State != v1alpha1.TaskWorking || task.Status.Message != words {
			return fmt.Errorf("it is %s: %s", task.Status.State, task.Status.Message)
		}
		return nil
	})
	awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonStartFailed)
	if want := "the work could not start within 20s (startDeadline): " + words; task.Status.Message != want || task.Status.Error == nil || task.Status.Error.Message != want {
		t.Errorf("message %q, error %+v", task.Status.Message, task.Status.Error)
	}
	jobGone(t, task)
}

// besideMesh plays a Pod whose work has ended a minute ago, and whose other container runs.
func besideMesh(code int32) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		ended(code, "")(s)
		s.Phase = corev1.PodRunning
		end := s.ContainerStatuses[0].State.Terminated
		end.StartedAt, end.FinishedAt = metav1.NewTime(time.Now().Add(-2*time.Minute)), metav1.NewTime(time.Now().Add(-time.Minute))
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: end.StartedAt}}})
	}
}

func withMesh(s *v1alpha1.McpToolSpec) {
	pod := &s.JobTemplate.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "mesh", Image: "example.test/mesh"})
}

func TestTaskEndsAlthoughAContainerBesideItsWorkDoesNot(t *testing.T) {
	t.Run("its work was done", func(t *testing.T) {
		task := calledTool(t, withMesh)
		pod := awaitPod(t, task)
		play(t, pod, besideMesh(0))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		awaitDeadline(t, pod, 1)
	})
	t.Run("its work failed and may be tried again", func(t *testing.T) {
		task := calledTool(t, func(s *v1alpha1.McpToolSpec) {
			withMesh(s)
			n := int32(2)
			s.JobTemplate.Spec.BackoffLimit = &n
		})
		pod := awaitPod(t, task)
		play(t, pod, besideMesh(4))
		awaitDeadline(t, pod, 2)
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRetrying)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
		if err := read(t, job); err != nil || *job.Spec.BackoffLimit != 2 {
			t.Errorf("the Job has %d attempts left (%v)", *job.Spec.BackoffLimit, err)
		}
	})
}

// A podFailurePolicy that ignores how a stopped Pod ended makes the Job try again: the task ends all the same, with what the Pod put out.
func TestCancelEndsAJobThatIgnoresIt(t *testing.T) {
	task := calledTool(t, func(s *v1alpha1.McpToolSpec) {
		s.JobTemplate.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{143}},
		}}}
	})
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	cancelTask(t, task)
	awaitDeadline(t, pod, 1)
	play(t, pod, func(s *corev1.PodStatus) { ended(143, "partial")(s); s.Reason = "DeadlineExceeded" })
	awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
	if task.Status.Result == nil || !strings.Contains(string(task.Status.Result.Inline.Raw), "partial") {
		t.Errorf("what the Pod put out is lost: %+v", task.Status.Result)
	}
	jobGone(t, task)
}

func TestPodThatIsTakenAwayIsExplained(t *testing.T) {
	task := calledTool(t, nil)
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	play(t, pod, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodFailed
		ended(143, "")(s)
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", LastTransitionTime: metav1.Now(), Message: "a more important Pod"})
	})
	if err := k8s.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonEvicted)
	if !strings.Contains(task.Status.Message, "was preempted by one of higher priority: a more important Pod") {
		t.Errorf("message %q", task.Status.Message)
	}
}
