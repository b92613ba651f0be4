package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
	"github.com/mcptask/mcptask/controllers/results"
)

const (
	// lineRoom is how much more of a log is read than is kept of it: a last line that is a little too long is seen to be one.
	lineRoom = 64 << 10
	// sidecarRoom is what a report, and what follows it in the log, may have beside its result.
	sidecarRoom = 1 << 20
)

// output is the result of work that has ended: what it handed over, else what it put out, as the tool's result.source says. It is
// stored when output returns, as far as it is not part of the status.
func (r *TaskReconciler) output(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input, verdict *decide.Verdict) (*v1alpha1.TaskResult, error) {
	out := verdict.Output
	if out == nil {
		return nil, nil
	}
	policy, err := r.resultPolicy(ctx, task)
	if err != nil {
		return nil, err
	}
	source, limit := policy.Source, int(policy.MaxBytes)
	if out.Reported != nil && source != v1alpha1.ResultSourceLog {
		if stored := results.Stored(out); stored != nil {
			return stored, nil
		}
		kept, err := results.Reported(out, limit)
		if err == nil {
			return r.store(ctx, task, kept)
		}
		ctrl.LoggerFrom(ctx).Error(err, "the task ends with its log instead of the result that was handed over")
	}
	if out.Pod == nil {
		return r.store(ctx, task, results.Build(source, out, results.Log{Lost: podGone}, "", limit))
	}
	if source == v1alpha1.ResultSourceFile && out.Succeeded && jobs.HasSidecar(out.Pod) {
		return r.store(ctx, task, results.NothingHandedOver(limit))
	}
	var message string
	if t := ended(out.Pod.Status.ContainerStatuses, out.Container); t != nil {
		message = t.Message
	}
	var result *v1alpha1.TaskResult
	err = r.readLog(ctx, out.Pod, out.Pod.Status.ContainerStatuses, out.Container, limit+lineRoom, seen.Now, func(log results.Log) (err error) {
		result, err = r.store(ctx, task, results.Build(source, out, log, message, limit))
		return err
	})
	return result, err
}

// resultPolicy is where the tool of a task wants the result read from and how much of it kept.
func (r *TaskReconciler) resultPolicy(ctx context.Context, task *v1alpha1.McpTask) (v1alpha1.ToolResult, error) {
	var tool v1alpha1.McpTool
	policy := v1alpha1.ToolResult{Source: v1alpha1.ResultSourceAuto, MaxBytes: resultsecret.DefaultBytes}
	switch err := r.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.ToolName}, &tool); {
	case apierrors.IsNotFound(err):
		return policy, nil
	case err != nil:
		return policy, fmt.Errorf("reading the tool of the task %s: %w", task.Name, err)
	}
	if tool.Spec.Result.Source != "" {
		policy.Source = tool.Spec.Result.Source
	}
	if tool.Spec.Result.MaxBytes > 0 {
		policy.MaxBytes = min(tool.Spec.Result.MaxBytes, resultsecret.MaxBytes)
	}
	return policy, nil
}

// undelivered is how the work of an ended Job said that it ended, where the sidecar could not hand that over and left it in its
// log; nil where there is no such thing.
func (r *TaskReconciler) undelivered(ctx context.Context, seen *decide.Input) (*v1alpha1.RuntimeReport, error) {
	pod := seen.Deciding()
	if pod == nil || !jobs.HasSidecar(pod) || ended(pod.Status.InitContainerStatuses, jobs.SidecarName) == nil {
		return nil, nil
	}
	if report := seen.Report(pod); report != nil && report.Outcome != "" {
		return nil, nil
	}
	policy, err := r.resultPolicy(ctx, seen.Task)
	if err != nil {
		return nil, err
	}
	limit := int(policy.MaxBytes)
	var left *v1alpha1.RuntimeReport
	err = r.readLog(ctx, pod, pod.Status.InitContainerStatuses, jobs.SidecarName, limit+sidecarRoom, seen.Now, func(log results.Log) (err error) {
		if left, err = results.Undelivered(log, pod.UID, limit); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "the task ends without it")
		}
		return nil
	})
	return left, err
}
