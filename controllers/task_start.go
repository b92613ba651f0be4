package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// awaitCache is how soon a task is looked at again whose cached copy is behind.
const awaitCache = 100 * time.Millisecond

// awaitTool is how soon a task looks again at a tool that has not been checked yet.
const awaitTool = time.Second

// awaitJob is how soon the API server is asked again to take a Job that it did not take for a passing reason: a full quota, a
// webhook that does not answer.
const awaitJob = 5 * time.Second

// ofTemplate is where in a tool the fields of its Job stand.
const ofTemplate = "spec.jobTemplate"

// start makes the Job of a task that has none, once: the task is read live first, so that an old cache
// cannot make a Job for a task that has already had one.
func (r *TaskReconciler) start(ctx context.Context, cached *v1alpha1.McpTask) (ctrl.Result, error) {
	var task v1alpha1.McpTask
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), &task); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if task.UID != cached.UID || !task.DeletionTimestamp.IsZero() || task.Status.State.Terminal() || task.Status.JobRef != nil {
		return ctrl.Result{RequeueAfter: awaitCache}, nil
	}
	nothing := &decide.Input{Task: &task, Now: r.Now()}
	if task.Spec.Cancel != nil {
		return r.refuse(ctx, &task, nothing, &decide.Verdict{
			State: v1alpha1.TaskCancelled, Reason: v1alpha1.ReasonCancelled, Message: decide.CancelWords(&task) + " (before its Job was made)"})
	}
	if verdict := decide.Expired(nothing); verdict != nil {
		return r.refuse(ctx, &task, nothing, verdict)
	}
	ran, err := r.ranBefore(ctx, &task)
	if err != nil {
		return ctrl.Result{}, err
	}
	if ran {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(&task), &batchv1.Job{})
		if apierrors.IsNotFound(err) {
			return r.conclude(ctx, &task, nothing, decide.JobDeleted(&task))
		}
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("reading the Job of the task %s: %w", task.Name, err)
		}
	}
	tool, verdict, err := r.readyTool(ctx, &task)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case verdict != nil:
		return r.refuse(ctx, &task, nothing, verdict)
	}
	job, err := jobs.Build(tool, &task, r.Runtime)
	if err != nil {
		return r.refuse(ctx, &task, nothing, buildRefusal(err))
	}
	if err := controllerutil.SetControllerReference(&task, job, r.Scheme()); err != nil {
		return ctrl.Result{}, fmt.Errorf("owning the Job of the task %s: %w", task.Name, err)
	}
	job, verdict, err = r.createJob(ctx, &task, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	if verdict != nil {
		return r.conclude(ctx, &task, nothing, verdict)
	}
	nothing.Job = job
	decided := decide.Decide(nothing)
	return r.conclude(ctx, &task, nothing, &decided)
}

// refuse writes the verdict on a task that gets no Job, unless it has one: that of an earlier, interrupted try, which the cache does
// not show yet. What that Job comes to decides then.
func (r *TaskReconciler) refuse(ctx context.Context, task *v1alpha1.McpTask, nothing *decide.Input, verdict *decide.Verdict) (ctrl.Result, error) {
	if verdict.State.Terminal() {
		job := &batchv1.Job{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(task), job)
		switch {
		case err == nil && metav1.IsControlledBy(job, task):
			return ctrl.Result{RequeueAfter: awaitCache}, r.label(ctx, job, task)
		case client.IgnoreNotFound(err) != nil:
			return ctrl.Result{}, fmt.Errorf("reading the Job of the task %s: %w", task.Name, err)
		}
	}
	return r.conclude(ctx, task, nothing, verdict)
}

// readyTool is the tool of the task, or the verdict on a task whose tool is not there, not ready, or not checked yet.
func (r *TaskReconciler) readyTool(ctx context.Context, task *v1alpha1.McpTask) (*v1alpha1.McpTool, *decide.Verdict, error) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.ToolName}
	tool := &v1alpha1.McpTool{}
	err := r.Get(ctx, key, tool)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, tool)
	}
	if apierrors.IsNotFound(err) {
		return nil, decide.Failed(decide.CodeInternalError, v1alpha1.ReasonToolNotFound, fmt.Sprintf("there is no McpTool %s in the namespace %s", key.Name, key.Namespace)), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the tool of the task %s: %w", task.Name, err)
	}
	ready := meta.FindStatusCondition(tool.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != tool.Generation || ready.Status == metav1.ConditionUnknown {
		words := fmt.Sprintf("the McpTool %s has not been checked yet", tool.Name)
		if ready != nil && ready.ObservedGeneration == tool.Generation {
			words = fmt.Sprintf("the McpTool %s could not be checked yet (%s): %s", tool.Name, ready.Reason, ready.Message)
		}
		return nil, &decide.Verdict{State: v1alpha1.TaskWorking, Reason: v1alpha1.ReasonQueued, Recheck: awaitTool, Message: words}, nil
	}
	if ready.Status != metav1.ConditionTrue {
		return nil, decide.Failed(decide.CodeInternalError, v1alpha1.ReasonToolNotReady, fmt.Sprintf("the McpTool %s is not ready (%s): %s", tool.Name, ready.Reason, ready.Message)), nil
	}
	return tool, nil, nil
}

// createJob makes the Job, or takes the one that an earlier, interrupted try has made; or it is the verdict on a task
// whose Job the API server does not take.
func (r *TaskReconciler) createJob(ctx context.Context, task *v1alpha1.McpTask, job *batchv1.Job) (*batchv1.Job, *decide.Verdict, error) {
	err := r.Create(ctx, job)
	switch {
	case err == nil:
		return job, nil, nil
	case apierrors.IsAlreadyExists(err):
		existing := &batchv1.Job{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), existing); err != nil {
			return nil, nil, fmt.Errorf("reading the Job of the task %s: %w", task.Name, err)
		}
		return existing, nil, nil
	case refused(err):
		return nil, decide.Failed(decide.CodeInternalError, v1alpha1.ReasonJobRefused, fmt.Sprintf("the API server refused the Job of the McpTool %s: %s", task.Spec.ToolName, refusalWords(err, ofTemplate))), nil
	}
	return nil, &decide.Verdict{
		State: v1alpha1.TaskWorking, Reason: v1alpha1.ReasonQueued, Recheck: awaitJob,
		Message: "the API server does not take the Job yet: " + strings.TrimPrefix(refusalWords(err, ofTemplate), ofTemplate+": "),
	}, nil
}

// buildRefusal tells arguments that do not fit from a tool that cannot be used.
func buildRefusal(err error) *decide.Verdict {
	var mismatch *toolschema.Mismatch
	if errors.As(err, &mismatch) {
		return decide.Failed(decide.CodeInvalidParams, v1alpha1.ReasonInvalidArguments, "the arguments do not fit the tool: "+mismatch.Error())
	}
	return decide.Failed(decide.CodeInternalError, v1alpha1.ReasonToolNotReady, err.Error())
}
