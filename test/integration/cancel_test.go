//go:build integration

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestCancelEndsTheWork(t *testing.T) {
	t.Run("cooperative", func(t *testing.T) {
		task := calledTool(t, func(s *v1alpha1.McpToolSpec) { n := int32(3); s.JobTemplate.Spec.BackoffLimit = &n })
		pod := awaitPod(t, task)
		play(t, pod, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		cancelTask(t, task)
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
		cancelTask(t, task)
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
		play(t, pod, ended(0, "done"))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	})
	t.Run("immediate", func(t *testing.T) {
		task := calledTool(t, func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = v1alpha1.CancelModeImmediate })
		pod := awaitPod(t, task)
		play(t, pod, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		cancelTask(t, task)
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
		cancelTask(t, task)
		awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
		eventually(t, "the Job is removed", func() error {
			if err := read(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%v", err)
			}
			return nil
		})
	})
}

// A task whose work ends and whose end is asked for is decided once.
func TestWhatFinishedFirstStands(t *testing.T) {
	immediate := func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = v1alpha1.CancelModeImmediate }
	for name, tc := range map[string]struct {
		tool  func(*v1alpha1.McpToolSpec)
		play  func(*testing.T, *v1alpha1.McpTask, *corev1.Pod)
		state v1alpha1.TaskState
		words string
	}{
		"succeeded, then cancelled": {nil, func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, ended(0, "done"))
			cancelTask(t, task)
		}, v1alpha1.TaskCompleted, "done"},
		"failed, then cancelled": {nil, func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, ended(3, "no such host"))
			eventually(t, "a second passes: clocks show no less", func() error {
				if metav1.Now().Unix() <= pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Unix() {
					return fmt.Errorf("not yet")
				}
				return nil
			})
			cancelTask(t, task)
		}, v1alpha1.TaskCompleted, "no such host"},
		"cancelled, then failed": {nil, func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			cancelTask(t, task)
			play(t, pod, func(s *corev1.PodStatus) { ended(143, "the partial result")(s); s.Reason = "DeadlineExceeded" })
		}, v1alpha1.TaskCancelled, "the partial result"},
		"succeeded, then cancelled, of an Immediate tool": {immediate, func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, ended(0, "done"))
			eventually(t, "the Job is complete, or gone since its result is stored", func() error {
				job := jobOf(task)
				err := read(t, job)
				if apierrors.IsNotFound(err) {
					return nil
				}
				if err != nil || job.Status.Succeeded != 1 || job.Status.CompletionTime == nil {
					return fmt.Errorf("%+v, %v", job.Status, err)
				}
				return nil
			})
			cancelTask(t, task)
		}, v1alpha1.TaskCompleted, "done"},
	} {
		// The controller knows of neither, or hears of the cancellation first.
		for _, lag := range []time.Duration{0, 1500 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, Jobs and Pods %s behind", name, lag), func(t *testing.T) {
				ns := newNamespace(t)
				seen := record(t, ns)
				startOperator(t, ns, faults{lag: map[string]time.Duration{"jobs": lag, "pods": lag}})
				task := callOf(readyTool(t, ns, tc.tool), `{}`)
				create(t, task)
				pod := awaitRunning(t, task)
				tc.play(t, task, pod)
				awaitEnd(t, task)
				if task.Status.State != tc.state || task.Status.Result == nil || !strings.Contains(string(task.Status.Result.Inline.Raw), tc.words) {
					t.Errorf("%s/%s: %s, %+v", task.Status.State, task.Status.Reason, task.Status.Message, task.Status.Result)
				}
				awaitGone(t, "the Job", jobOf(task))
				seen.mu.Lock()
				defer seen.mu.Unlock()
				if moved := seen.moved(); len(moved) > 0 {
					t.Error(moved)
				}
			})
		}
	}
}

func TestCancellationAndEndAtTheSameTimeAreDecidedOnce(t *testing.T) {
	for _, mode := range []v1alpha1.CancelMode{v1alpha1.CancelModeCooperative, v1alpha1.CancelModeImmediate} {
		t.Run(string(mode), func(t *testing.T) {
			ns := newNamespace(t)
			seen := record(t, ns)
			startOperator(t, ns, faults{})
			tool := readyTool(t, ns, func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = mode })
			ends := map[v1alpha1.TaskState]int{}
			for range 10 {
				task := callOf(tool, `{}`)
				create(t, task)
				pod := awaitPod(t, task)
				play(t, pod, runningSince(metav1.Now()))
				var both sync.WaitGroup
				both.Go(func() { play(t, pod, ended(0, "done")) })
				both.Go(func() { cancelTask(t, task) })
				both.Wait()
				awaitEnd(t, task)
				ends[task.Status.State]++
				if task.Status.State == v1alpha1.TaskCompleted && task.Status.Result == nil {
					t.Errorf("completed without its result: %+v", task.Status)
				}
				awaitGone(t, "the Job", jobOf(task))
				seen.mu.Lock()
				moved := seen.moved()
				seen.tasks = nil
				seen.mu.Unlock()
				if len(moved) > 0 {
					t.Error(moved)
				}
			}
			t.Logf("%v", ends)
			if ends[v1alpha1.TaskCompleted]+ends[v1alpha1.TaskCancelled] != 10 {
				t.Errorf("they ended as %v", ends)
			}
		})
	}
}

// The Job controller takes a second or more to say that a Job has ended whose Pod has: what is asked for in between comes too late.
func TestWorkThatHasEndedStandsBeforeItsJobSaysSo(t *testing.T) {
	t.Run("its ttl passes", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		startOperator(t, ns, faults{})
		task := callOf(readyTool(t, ns, nil), `{}`)
		task.Spec.TTL = lasting(8 * time.Second)
		create(t, task)
		pod := awaitRunning(t, task)
		eventually(t, "its ttl has almost passed", func() error {
			if left := time.Until(task.CreationTimestamp.Add(8 * time.Second)); left > 500*time.Millisecond {
				return fmt.Errorf("%s are left", left)
			}
			return nil
		})
		play(t, pod, ended(0, "done"))
		awaitEnd(t, task)
		if task.Status.State != v1alpha1.TaskCompleted {
			t.Errorf("it is %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
		}
	})
	t.Run("it is cancelled, of an Immediate tool", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		startOperator(t, ns, faults{})
		task := callOf(readyTool(t, ns, func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = v1alpha1.CancelModeImmediate }), `{}`)
		create(t, task)
		play(t, awaitRunning(t, task), ended(0, "done"))
		cancelTask(t, task)
		awaitEnd(t, task)
		if task.Status.State != v1alpha1.TaskCompleted {
			t.Errorf("it is %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
		}
	})
}
