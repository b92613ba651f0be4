package controllers

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

const (
	// coalesce is the least time between two writes of a task that only tell how far it is.
	coalesce = 2 * time.Second
	// settle is how long the way to a running container is not told step by step: most work has started by then.
	settle = 10 * time.Second
)

// conclude writes a verdict into the task's status. It is the only place that writes it.
func (r *TaskReconciler) conclude(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input, verdict *decide.Verdict) (ctrl.Result, error) {
	if r.written.behind(task) {
		return ctrl.Result{RequeueAfter: awaitCache}, nil // the API server would say so too
	}
	before := task.DeepCopy()
	status := &task.Status
	status.State, status.Reason, status.Message = verdict.State, verdict.Reason, decide.OneLine(verdict.Message)
	status.Error = verdict.Error
	if status.Error != nil {
		status.Error.Message = clip(status.Error.Message, 4096)
	}
	describe(status, seen)
	collectQuestions(task, seen.Now)
	forgetReplaced(status, seen.Pods)
	terminal := status.State.Terminal()
	if terminal {
		var err error
		if status.State == v1alpha1.TaskFailed && verdict.Output != nil {
			status.Error.Data, err = r.lastWords(ctx, verdict.Output)
		} else {
			status.Result, err = r.output(ctx, task, seen, verdict)
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		status.FinishedAt = &metav1.Time{Time: seen.Now}
		retention, err := r.retention(ctx, task)
		if err != nil {
			return ctrl.Result{}, err
		}
		if seen.Job != nil {
			status.Usage = decide.UsageOf(seen.Job, seen.Pods)
		}
		status.ExpiresAt = &metav1.Time{Time: decide.ExpiresAt(task, retention, seen.Now)}
		// What counts of it stands in the other fields now.
		status.Runtime = nil
	}
	finished(status, task.Generation)
	if equality.Semantic.DeepEqual(before.Status, task.Status) {
		return ctrl.Result{RequeueAfter: verdict.Recheck}, nil
	}
	if wait := coalesceFor(before, status, seen); wait > 0 {
		if verdict.Recheck > 0 {
			wait = min(wait, verdict.Recheck)
		}
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	status.LastUpdatedAt = &metav1.MicroTime{Time: seen.Now}
	return ctrl.Result{RequeueAfter: verdict.Recheck}, r.write(ctx, before, task, seen.Job)
}

// write patches the status, if the task is still the version that it was decided from: a Pod may have reported meanwhile.
func (r *TaskReconciler) write(ctx context.Context, before, task *v1alpha1.McpTask, job *batchv1.Job) error {
	after := task.DeepCopy()
	err := r.Status().Patch(ctx, after, statusPatch{before})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return err // decided from an old version: the retry decides again
	case err != nil:
		return fmt.Errorf("writing the status of the task %s/%s: %w", task.Namespace, task.Name, err)
	}
	r.written.note(after)
	r.tell(before, task, job)
	ctrl.LoggerFrom(ctx).V(1).Info("task is now", "state", task.Status.State, "reason", task.Status.Reason)
	return nil
}

// finished keeps the Finished condition in step with the state.
func finished(status *v1alpha1.McpTaskStatus, generation int64) {
	c := metav1.Condition{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionFalse, Reason: status.Reason, Message: status.Message, ObservedGeneration: generation}
	if status.State.Terminal() {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, c)
}

// coalesceFor is how long a change that only tells how far the work is has to wait. Nothing waits that a caller or a Pod
// acts on: the Job is made, a Pod that may report, a question, its answer, the end.
func coalesceFor(before *v1alpha1.McpTask, status *v1alpha1.McpTaskStatus, seen *decide.Input) time.Duration {
	last := before.Status.LastUpdatedAt
	switch {
	case last == nil, status.State != before.Status.State, before.Status.JobRef == nil && status.JobRef != nil:
		return 0
	case decide.LosesPod(status.Reason) && status.Reason != before.Status.Reason:
		return 0 // once the Pod is gone nothing else tells why
	case newSidecar(before.Status.PodUIDs, seen.Pods):
		return 0 // the runtime port refuses Pods that the task does not name
	case !equality.Semantic.DeepEqual(before.Status.InputRequests, status.InputRequests):
		return 0
	}
	every := coalesce
	if onItsWay(&before.Status) && onItsWay(status) {
		every = settle
	}
	return last.Add(every).Sub(seen.Now)
}

// onItsWay says whether the work has never begun and the cluster is about to start it.
func onItsWay(status *v1alpha1.McpTaskStatus) bool {
	return status.StartedAt == nil && (status.Reason == v1alpha1.ReasonScheduling || status.Reason == v1alpha1.ReasonPulling)
}
