package controllers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/results"
)

const (
	// coalesce is the least time between two writes of a task that only tell how far it is.
	coalesce = 2 * time.Second
	// awaitLog is how long after the end of the work its log may be out of reach before the task ends without it.
	awaitLog = time.Minute
	// logTimeout bounds one try to read a log: a node that answers no more must not hold up other tasks.
	logTimeout = 30 * time.Second
	// maxPodUIDs is how many Pods of a task are remembered, the newest ones.
	maxPodUIDs = 64
)

// conclude writes a verdict into the task's status. It is the only place that writes it.
func (r *TaskReconciler) conclude(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input, verdict *decide.Verdict) (ctrl.Result, error) {
	before := task.DeepCopy()
	status := &task.Status
	status.State, status.Reason, status.Message = verdict.State, verdict.Reason, clip(verdict.Message, 4096)
	status.Error = verdict.Error
	if status.Error != nil {
		status.Error.Message = clip(status.Error.Message, 4096)
	}
	describe(status, seen)
	terminal := status.State.Terminal()
	if terminal {
		result, err := r.output(ctx, task, seen, verdict)
		if err != nil {
			return ctrl.Result{}, err
		}
		status.Result = result
		status.FinishedAt = &metav1.Time{Time: seen.Now}
	}
	finished(status, task.Generation)
	if equality.Semantic.DeepEqual(before.Status, task.Status) {
		return ctrl.Result{RequeueAfter: verdict.Recheck}, nil
	}
	if wait := coalesceFor(before, status, seen.Now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	status.LastUpdatedAt = &metav1.MicroTime{Time: seen.Now}
	return ctrl.Result{RequeueAfter: verdict.Recheck}, r.write(ctx, before, task)
}

// write patches the status, if the task is still the version that it was decided from.
func (r *TaskReconciler) write(ctx context.Context, before, task *v1alpha1.McpTask) error {
	written := task.DeepCopy()
	err := r.Status().Patch(ctx, written, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return err // decided from an old version: the retry decides again
	case err != nil:
		return fmt.Errorf("writing the status of the task %s/%s: %w", task.Namespace, task.Name, err)
	}
	if task.Status.State.Terminal() {
		kind := corev1.EventTypeNormal
		if task.Status.State == v1alpha1.TaskFailed {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(task, nil, kind, task.Status.Reason, "Finish", "%s: %s", task.Status.State, clip(task.Status.Message, 900))
	}
	ctrl.LoggerFrom(ctx).V(1).Info("task is now", "state", task.Status.State, "reason", task.Status.Reason)
	return nil
}

// describe writes down what the Job and its Pods show, whatever it means.
func describe(status *v1alpha1.McpTaskStatus, seen *decide.Input) {
	if seen.Job == nil || !metav1.IsControlledBy(seen.Job, seen.Task) {
		return
	}
	status.JobRef = &v1alpha1.JobReference{Name: seen.Job.Name, UID: seen.Job.UID}
	status.PodUIDs = podUIDs(status.PodUIDs, seen.Pods)
	if started := decide.StartedAt(seen.Job, seen.Pods); started != nil && status.StartedAt == nil {
		status.StartedAt = started
	}
	if n := seen.Job.Spec.Completions; n != nil && *n > 1 {
		status.Progress = &v1alpha1.Progress{Current: strconv.Itoa(int(seen.Job.Status.Succeeded)), Total: strconv.Itoa(int(*n))}
	}
}

// podUIDs are the Pods known before and those seen now; of too many the newest of those seen now.
func podUIDs(known []types.UID, pods []corev1.Pod) []types.UID {
	all := slices.Clone(known)
	seen := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		seen = append(seen, pod.UID)
		if !slices.Contains(all, pod.UID) {
			all = append(all, pod.UID)
		}
	}
	if len(all) > maxPodUIDs {
		return seen[max(0, len(seen)-maxPodUIDs):]
	}
	return all
}

// finished keeps the Finished condition in step with the state.
func finished(status *v1alpha1.McpTaskStatus, generation int64) {
	c := metav1.Condition{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionFalse, Reason: status.Reason, Message: status.Message, ObservedGeneration: generation}
	if status.State.Terminal() {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, c)
}

// coalesceFor is how long a change that only tells how far the work is has to wait. Nothing waits that a caller
// acts on: the Job is made, a question, the end.
func coalesceFor(before *v1alpha1.McpTask, status *v1alpha1.McpTaskStatus, now time.Time) time.Duration {
	last := before.Status.LastUpdatedAt
	if last == nil || status.State != before.Status.State || before.Status.JobRef == nil {
		return 0
	}
	return last.Add(coalesce).Sub(now)
}

// output reads the result of work that has ended.
func (r *TaskReconciler) output(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input, verdict *decide.Verdict) (*v1alpha1.TaskResult, error) {
	out := verdict.Output
	if out == nil {
		return nil, nil
	}
	source := v1alpha1.ResultSourceAuto
	var tool v1alpha1.McpTool
	switch err := r.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.ToolName}, &tool); {
	case err == nil:
		source = tool.Spec.Result.Source
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading the tool of the task %s: %w", task.Name, err)
	}
	if out.Pod == nil {
		return results.Build(source, out, results.Log{}, "The Pod is gone, and its output with it."), nil
	}
	var message string
	ended := seen.Now
	for _, s := range out.Pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && s.Name == out.Container {
			message, ended = t.Message, t.FinishedAt.Time
		}
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	log, err := results.ReadLog(ctx, r.Kubernetes, out.Pod, out.Container)
	if err != nil {
		// A Pod that never had a node has no log; a node that was away comes back. What ended while nobody looked is
		// waited for as long as what ended just now.
		if ended.Before(r.began) {
			ended = r.began
		}
		if out.Pod.Spec.NodeName != "" && seen.Now.Sub(ended) < awaitLog {
			return nil, err
		}
		ctrl.LoggerFrom(ctx).Error(err, "the task ends without its log")
	}
	return results.Build(source, out, log, message), nil
}
