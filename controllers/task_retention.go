package controllers

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

const (
	// deletionsPerSecond and deletionsAtOnce pace the clearing away of what has lapsed while the controller was away, of tasks and of
	// Jobs each: the API server has others to serve.
	deletionsPerSecond, deletionsAtOnce = 20, 40
	// awaitTurn is how soon a deletion that has to wait is tried again.
	awaitTurn = time.Second
)

// clearAway removes what is left of a task that has ended, in its time: the Job once it is not needed any more, and at
// expiresAt the task itself. Both are stored before: what the Job put out, and when the task ended.
func (r *TaskReconciler) clearAway(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input) (ctrl.Result, error) {
	retention, err := r.retention(ctx, task)
	if err != nil {
		return ctrl.Result{}, err
	}
	finished := task.CreationTimestamp.Time
	if task.Status.FinishedAt != nil {
		finished = task.Status.FinishedAt.Time
	}
	expires := decide.ExpiresAt(task, retention, finished)
	if task.Status.ExpiresAt != nil {
		expires = task.Status.ExpiresAt.Time // as the caller was told
	}
	if left := expires.Sub(seen.Now); left > 0 {
		return r.clearJob(ctx, task, seen, retention, finished, left)
	}
	if !r.deletions.Allow() {
		return ctrl.Result{RequeueAfter: awaitTurn}, nil
	}
	err = r.Delete(ctx, task, client.PropagationPolicy("Background"), client.Preconditions{UID: &task.UID, ResourceVersion: &task.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		if apierrors.IsConflict(err) {
			return ctrl.Result{}, err // decided from an old version
		}
		return ctrl.Result{}, fmt.Errorf("deleting the task %s/%s, which has expired: %w", task.Namespace, task.Name, err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("deleted the task, which has expired", "state", task.Status.State, "expired", expires)
	return ctrl.Result{}, nil
}

// clearJob deletes the Job of a task that has ended, and with it the Pods, when nobody needs them any more. left is how long the task
// itself is kept.
func (r *TaskReconciler) clearJob(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input, retention *v1alpha1.RetentionPolicy, finished time.Time, left time.Duration) (ctrl.Result, error) {
	job := seen.Job
	if job == nil || !job.DeletionTimestamp.IsZero() || !decide.Ended(job) {
		return ctrl.Result{RequeueAfter: left}, nil // the end of a Job that still stops is an event of its own
	}
	keep := decide.KeepJob
	if retention != nil && retention.Job != nil {
		keep = retention.Job.Duration
	}
	if wait := finished.Add(keep).Sub(seen.Now); wait > 0 {
		return ctrl.Result{RequeueAfter: min(wait, left)}, nil
	}
	if !r.jobDeletions.Allow() {
		return ctrl.Result{RequeueAfter: awaitTurn}, nil
	}
	err := r.Delete(ctx, job, client.PropagationPolicy("Background"), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("deleting the Job %s/%s, which has ended: %w", job.Namespace, job.Name, err)
	}
	return ctrl.Result{RequeueAfter: left}, nil
}

// retention is what the task's tool says about finished tasks; nil where it says nothing, or is gone.
func (r *TaskReconciler) retention(ctx context.Context, task *v1alpha1.McpTask) (*v1alpha1.RetentionPolicy, error) {
	var tool v1alpha1.McpTool
	err := r.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.ToolName}, &tool)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the tool of the task %s: %w", task.Name, err)
	}
	return tool.Spec.Retention, nil
}
