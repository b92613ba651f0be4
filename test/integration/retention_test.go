//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
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
	ns := newNamespace(t)
	tool := newTool(ns, "tool")
	create(t, tool)
	stale := callOf(tool, `{}`)
	stale.Spec.TTL = lasting(time.Second)
	create(t, stale)
	eventually(t, "its ttl passes", func() error {
		if left := time.Until(stale.CreationTimestamp.Add(2 * time.Second)); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	runController(t, ns)
	awaitState(t, stale, v1alpha1.TaskFailed, v1alpha1.ReasonExpired)
	if err := read(t, jobOf(stale)); !apierrors.IsNotFound(err) {
		t.Errorf("it was given a Job: %v", err)
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
