//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestATaskMadeWhileTheControllerIsAwayRunsWhenItReturns(t *testing.T) {
	ns := newNamespace(t)
	task := callOf(readyTool(t, ns, nil), `{}`)
	create(t, task)
	if err := read(t, task); err != nil || task.Status.State != "" {
		t.Fatalf("%v, %+v", err, task.Status)
	}
	startOperator(t, ns, faults{})
	play(t, awaitPod(t, task), ended(0, "done"))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
}

// reconcileErrors is how many times the reconciler of tasks has failed in this process.
func reconcileErrors(t *testing.T) (count float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_errors_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == "mcptask" {
					count += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return count
}

// awaitNamespaceGone waits until all of a namespace is deleted, which takes several rounds.
func awaitNamespaceGone(t *testing.T, namespace *corev1.Namespace) {
	t.Helper()
	within(t, 2*time.Minute, "the namespace is deleted", func() error {
		err := read(t, namespace)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%+v", namespace.Status)
	})
}

func TestANamespaceThatTerminatesTakesItsTasksWithoutAnError(t *testing.T) {
	// At one time: both wait, and an error of either is one.
	for name, test := range map[string]func(*testing.T){"at once": namespaceTakesItsTasks, "they say so as long as a Pod holds it": tasksSayThatTheirNamespaceTerminates} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func namespaceTakesItsTasks(t *testing.T) {
	ns := newNamespace(t)
	startOperator(t, ns, faults{})
	tool := readyTool(t, ns, nil)
	unchecked := newTool(ns, "unchecked")
	create(t, unchecked)
	running, finished, queued := callOf(tool, `{}`), callOf(tool, `{}`), callOf(unchecked, `{}`)
	for _, task := range []*v1alpha1.McpTask{running, finished, queued} {
		create(t, task)
	}
	awaitRunning(t, running)
	play(t, awaitPod(t, finished), ended(0, "done"))
	awaitState(t, finished, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	before := reconcileErrors(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if err := k8s.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	awaitNamespaceGone(t, namespace)
	if failed := reconcileErrors(t) - before; failed > 0 {
		t.Errorf("%v errors", failed)
	}
}

// Kubernetes deletes the Pods of a namespace first, and waits for them: as long as one has not ended the tasks are there, and say what
// becomes of them.
func tasksSayThatTheirNamespaceTerminates(t *testing.T) {
	ns := newNamespace(t)
	startOperator(t, ns, faults{})
	tool := readyTool(t, ns, func(s *v1alpha1.McpToolSpec) {
		s.JobTemplate.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](6)
	})
	waits := newTool(ns, "waits")
	waits.Spec.JobTemplate.Spec.Suspend = ptr.To(true)
	create(t, waits)
	awaitReady(t, waits)
	running, suspended, refused := callOf(tool, `{}`), callOf(waits, `{}`), callOf(tool, `{}`)
	create(t, running)
	create(t, suspended)
	pod := onNode(t, running, nil)
	awaitState(t, running, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	awaitState(t, suspended, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
	noMore(t, ns, "no-more-jobs", "count/jobs.batch")
	create(t, refused)
	awaitState(t, refused, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
	before := reconcileErrors(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if err := k8s.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	says := func(task *v1alpha1.McpTask, state v1alpha1.TaskState, reason, words string) {
		t.Helper()
		awaitState(t, task, state, reason)
		if !strings.HasPrefix(task.Status.Message, words) {
			t.Errorf("%q does not begin with %q", task.Status.Message, words)
		}
	}
	says(running, v1alpha1.TaskWorking, v1alpha1.ReasonEvicted, "the Pod "+pod.Name+" was deleted (its grace period ends at ")
	says(refused, v1alpha1.TaskFailed, v1alpha1.ReasonJobRefused, "the API server refused the Job of the McpTool "+tool.Name+": ")
	if words := "namespace " + ns + " is being terminated"; !strings.HasSuffix(refused.Status.Message, words) {
		t.Errorf("%q does not end with %q", refused.Status.Message, words)
	}
	// The Jobs go after the Pods, before or after the tasks; this one goes before.
	if err := k8s.Delete(t.Context(), jobOf(suspended), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	says(suspended, v1alpha1.TaskFailed, v1alpha1.ReasonJobDeleted, "the namespace "+ns+" is being deleted, and the Job "+suspended.Name+" was deleted with it")
	endOn(t, pod, 143)
	awaitNamespaceGone(t, namespace)
	if failed := reconcileErrors(t) - before; failed > 0 {
		t.Errorf("%v errors", failed)
	}
}

// Somebody's finalizer keeps the namespace, and with it a task that has no Job yet.
func TestATaskThatIsBeingDeletedGetsNoJob(t *testing.T) {
	ns := newNamespace(t)
	tool := readyTool(t, ns, nil)
	task := callOf(tool, `{}`)
	task.Finalizers = []string{"example.test/held"}
	create(t, task)
	release := func() {
		if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"metadata":{"finalizers":null}}`)); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if err := k8s.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the task is to be deleted", func() error {
		if err := read(t, task); err != nil || task.DeletionTimestamp == nil {
			return fmt.Errorf("not yet: %v", err)
		}
		return nil
	})
	before := reconcileErrors(t)
	o := startOperator(t, ns, faults{})
	release()
	awaitNamespaceGone(t, namespace)
	if failed := reconcileErrors(t) - before; failed > 0 || len(o.written()) > 0 {
		t.Errorf("%v errors, writes %v", failed, o.written())
	}
}

// A controller makes the Job and ends before it can write that down; somebody deletes the Job; another controller comes.
func TestAJobThatNobodyWroteDownIsNotMadeAgain(t *testing.T) {
	ns := newNamespace(t)
	seen := record(t, ns)
	tool := readyTool(t, ns, nil)
	first := startOperator(t, ns, faults{killAt: 1, applied: true})
	task := callOf(tool, `{}`)
	create(t, task)
	<-first.killed
	first.stop()
	awaitPod(t, task)
	eventually(t, "an Event tells of the Pod", func() error {
		var list eventsv1.EventList
		if err := k8s.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Regarding.Name == task.Name && event.Reason == "SuccessfulCreate" {
				return nil
			}
		}
		return fmt.Errorf("%d Events", len(list.Items))
	})
	if err := read(t, task); err != nil || task.Status.JobRef != nil {
		t.Fatalf("the task names its Job: %v, %v", task.Status.JobRef, err)
	}
	if err := k8s.Delete(t.Context(), jobOf(task), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, "the Job", jobOf(task))
	startOperator(t, ns, faults{})
	awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonJobDeleted)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.jobs) != 1 {
		t.Errorf("%d Jobs", len(seen.jobs))
	}
}
