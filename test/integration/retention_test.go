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
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func lasting(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// awaitGone waits until the object is deleted.
func awaitGone(t *testing.T, what string, o client.Object) {
	t.Helper()
	eventually(t, what+" is deleted", func() error {
		err := read(t, o)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is still there")
	})
}

func jobOf(task *v1alpha1.McpTask) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
}

func TestATaskThatRunsPastItsTTLIsStoppedAndSaysSo(t *testing.T) {
	ns := newNamespace(t)
	runController(t, ns)
	tool := newTool(ns, "tool")
	tool.Spec.Retention = &v1alpha1.RetentionPolicy{Failed: lasting(3 * time.Second)}
	create(t, tool)
	awaitReady(t, tool)
	task := callOf(tool, `{}`)
	task.Spec.TTL = lasting(4 * time.Second)
	create(t, task)
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonExpired)
	if early := task.CreationTimestamp.Add(4 * time.Second).Sub(task.Status.FinishedAt.Time); early > time.Second {
		t.Errorf("it ended %s before its ttl", early)
	}
	if kept := task.Status.ExpiresAt.Sub(task.Status.FinishedAt.Time); kept < 2*time.Second || kept > 4*time.Second { // rounded up
		t.Errorf("it is kept for %s", kept)
	}
	eventually(t, "the Pod is asked to end", func() error {
		if err := read(t, pod); err != nil {
			return err
		}
		if pod.Spec.ActiveDeadlineSeconds == nil {
			return fmt.Errorf("it has no deadline")
		}
		return nil
	})
	awaitGone(t, "the task", task)
	if early := time.Until(task.Status.ExpiresAt.Time); early > 0 {
		t.Errorf("the task was deleted %s before it expired", early)
	}
	awaitGone(t, "its Job", jobOf(task))
}

func TestTheJobGoesOnceItsResultIsStored(t *testing.T) {
	task := calledTool(t, func(s *v1alpha1.McpToolSpec) {
		s.Retention = &v1alpha1.RetentionPolicy{Job: lasting(0), Completed: lasting(4 * time.Second)}
	})
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	play(t, pod, ended(0, "done"))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	if u := task.Status.Usage; u == nil || u.Attempts != 1 {
		t.Errorf("usage is %+v", u)
	}
	result := task.Status.Result
	awaitGone(t, "the Job", jobOf(task))
	awaitGone(t, "the Pod", pod)
	if err := read(t, task); err != nil || task.Status.State != v1alpha1.TaskCompleted || string(task.Status.Result.Inline.Raw) != string(result.Inline.Raw) {
		t.Errorf("after its Job went, the task is %+v, %v", task.Status, err)
	}
	awaitGone(t, "the task", task)
}

func TestWhatLapsedWhileTheControllerWasAwayIsClearedAway(t *testing.T) {
	t.Run("before it had a Job", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		tool := newTool(ns, "tool")
		create(t, tool)
		stale := callOf(tool, `{}`)
		stale.Spec.TTL = lasting(time.Second)
		create(t, stale)
		awaitLapse(t, stale)
		runController(t, ns)
		awaitState(t, stale, v1alpha1.TaskFailed, v1alpha1.ReasonExpired)
		if err := read(t, jobOf(stale)); !apierrors.IsNotFound(err) {
			t.Errorf("it was given a Job: %v", err)
		}
	})
	t.Run("its work runs on", func(t *testing.T) {
		t.Parallel()
		task, pod, seen := lapsedWithoutController(t, func(*v1alpha1.McpTask, *corev1.Pod) {})
		if err := read(t, pod); err != nil || pod.Spec.ActiveDeadlineSeconds != nil || pod.Status.Phase != corev1.PodRunning {
			t.Fatalf("somebody has ended the Pod: %v, %+v", err, pod.Spec.ActiveDeadlineSeconds)
		}
		startOperator(t, task.Namespace, faults{})
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonExpired)
		const words = "the task's ttl of 1s passed while it was Running (the tool is running on"
		if e := task.Status.Error; !strings.HasPrefix(task.Status.Message, words) || e == nil || e.Code != -32603 || e.Message != task.Status.Message {
			t.Errorf("%s, error %+v", task.Status.Message, e)
		}
		awaitDeadline(t, pod, 1)
		play(t, pod, func(s *corev1.PodStatus) { ended(143, "partial")(s); s.Reason = "DeadlineExceeded" })
		staysAsItEnded(t, task, seen)
	})
	t.Run("its work has ended meanwhile", func(t *testing.T) {
		t.Parallel()
		task, _, seen := lapsedWithoutController(t, func(task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, ended(0, "done"))
			eventually(t, "the Job is complete", func() error {
				job := jobOf(task)
				if err := read(t, job); err != nil || job.Status.CompletionTime == nil {
					return fmt.Errorf("%+v, %v", job.Status, err)
				}
				return nil
			})
		})
		startOperator(t, task.Namespace, faults{})
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if task.Status.Result == nil || !strings.Contains(string(task.Status.Result.Inline.Raw), "done") {
			t.Errorf("the result is %+v", task.Status.Result)
		}
		staysAsItEnded(t, task, seen)
	})
}

func awaitLapse(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	eventually(t, "its ttl passes", func() error {
		if left := time.Until(task.CreationTimestamp.Add(2 * time.Second)); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
}

// lapsedWithoutController is a task that ran when the controller went, and whose ttl passed then; meanwhile is what becomes of its work
// before that. Its Job goes as soon as it may.
func lapsedWithoutController(t *testing.T, meanwhile func(*v1alpha1.McpTask, *corev1.Pod)) (*v1alpha1.McpTask, *corev1.Pod, *history) {
	t.Helper()
	ns := newNamespace(t)
	seen := record(t, ns)
	o := startOperator(t, ns, faults{})
	task := callOf(readyTool(t, ns, nil), `{}`)
	create(t, task)
	pod := awaitRunning(t, task)
	o.stop()
	meanwhile(task, pod)
	expireSoon(t, task)
	awaitLapse(t, task)
	if err := read(t, task); err != nil || task.Status.Reason != v1alpha1.ReasonRunning {
		t.Fatalf("%v, without a controller it is %s/%s", err, task.Status.State, task.Status.Reason)
	}
	return task, pod, seen
}

// staysAsItEnded waits until the Job of an ended task is gone, and makes sure that the task was not written after its end.
func staysAsItEnded(t *testing.T, task *v1alpha1.McpTask, seen *history) {
	t.Helper()
	awaitGone(t, "the Job", jobOf(task))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if moved := seen.moved(); len(moved) > 0 {
		t.Error(moved)
	}
}

// finishedTasks are tasks of the tool that ended and expired an hour ago.
func finishedTasks(t *testing.T, tool *v1alpha1.McpTool, count int) []*v1alpha1.McpTask {
	t.Helper()
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	tasks := make([]*v1alpha1.McpTask, count)
	for i := range tasks {
		task := callOf(tool, `{}`)
		create(t, task)
		before := task.DeepCopy()
		task.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Reason: v1alpha1.ReasonSucceeded, FinishedAt: &long, ExpiresAt: &long, LastUpdatedAt: &metav1.MicroTime{Time: long.Time}}
		if err := k8s.Status().Patch(t.Context(), task, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		tasks[i] = task
	}
	return tasks
}

func TestManyTasksThatLapsedAtOnceGoAtAPace(t *testing.T) {
	const count, perSecond, atOnce = 300, 20, 40
	ns := newNamespace(t)
	tool := readyTool(t, ns, nil)
	finishedTasks(t, tool, count)
	watcher, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watcher.Watch(t.Context(), &v1alpha1.McpTaskList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	began := time.Now()
	startOperator(t, ns, faults{})
	deadline := time.After(2 * time.Minute)
	var gone []time.Duration
	for len(gone) < count {
		select {
		case event := <-w.ResultChan():
			if event.Type == watch.Deleted {
				gone = append(gone, time.Since(began))
			}
		case <-deadline:
			t.Fatalf("after %s %d of %d tasks are gone", time.Since(began), len(gone), count)
		}
	}
	t.Logf("%d tasks went in %s", count, gone[count-1]-gone[0])
	// At most the burst and the pace since its beginning; what the watch tells a little late came no sooner.
	for i, at := range gone {
		if allowed := atOnce + perSecond*at.Seconds(); float64(i+1) > allowed+1 {
			t.Fatalf("%d were gone after %s: more than %.0f", i+1, at, allowed)
		}
	}
}

// A failed Job has no completionTime.
func TestAFailedJobGoesToo(t *testing.T) {
	ns := newNamespace(t)
	startOperator(t, ns, faults{})
	task := callOf(readyTool(t, ns, func(s *v1alpha1.McpToolSpec) { s.Retention = &v1alpha1.RetentionPolicy{Job: lasting(4 * time.Second)} }), `{}`)
	create(t, task)
	pod := awaitPod(t, task)
	play(t, pod, ended(3, "no such host"))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonToolError)
	job := jobOf(task)
	if err := read(t, job); err != nil || job.Status.Failed != 1 || job.Status.CompletionTime != nil {
		t.Errorf("%v, %+v", err, job.Status)
	}
	awaitGone(t, "the Job", job)
	awaitGone(t, "the Pod", pod)
}
