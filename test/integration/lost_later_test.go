//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Whatever a task was doing when its Pod was taken from a silent node: it comes to an end soon after the Pod's grace, and nobody has to touch it.
func TestATaskOnASilentNodeEndsByItself(t *testing.T) {
	t.Parallel()
	newNode(t, newNamespace(t)+"-other")
	tests := &atOnce{t: t, slots: make(chan struct{}, 2)}
	tests.run("its end was asked for", func(t *testing.T) {
		w := workOnNode(t, evictedSoon)
		w.silence(t)
		cancelTask(t, w.task)
		awaitState(t, w.task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
		w.awaitEviction(t)
		awaitState(t, w.task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
		if words := w.task.Status.Message; !strings.HasPrefix(words, "cancelled by ann; the node "+w.node.Name+" has not been ready since ") {
			t.Errorf("message %q", words)
		}
		w.comesBack(t)
	})
	tests.run("its work had ended, and a container beside it had not", func(t *testing.T) {
		w := workOnNode(t, func(s *v1alpha1.McpToolSpec) { withMesh(s); evictedSoon(s) })
		play(t, w.pod, func(s *corev1.PodStatus) {
			ended(0, "done")(s)
			s.Phase = corev1.PodRunning
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
		})
		w.silence(t)
		w.awaitEviction(t)
		within(t, 30*time.Second, "the task ends", func() error { return w.ended(t) })
		if w.task.Status.State != v1alpha1.TaskCompleted {
			t.Errorf("its work ended with exit code 0, and the task is %s/%s: %s", w.task.Status.State, w.task.Status.Reason, w.task.Status.Message)
		}
	})
	tests.wait.Wait()
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

// The Job of somebody else is there before the controller is, and has a Pod: it is not taken for one that the task had and lost.
func TestAJobOfSomebodyElseIsNotTakenForALostOne(t *testing.T) {
	ns := newNamespace(t)
	task := callOf(readyTool(t, ns, nil), `{}`)
	job := jobOf(task)
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "nobody.mcptask.dev", Containers: []corev1.Container{{Name: "c", Image: "example.test/image"}}}
	create(t, job)
	eventually(t, "it has a Pod", func() error {
		if err := read(t, job); err != nil || job.Status.Active != 1 {
			return fmt.Errorf("%+v, %v", job.Status, err)
		}
		return nil
	})
	create(t, task)
	startOperator(t, ns, faults{})
	awaitEnd(t, task)
	if task.Status.Reason != v1alpha1.ReasonJobConflict {
		t.Errorf("%s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
	}
}
