package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
	"github.com/mcptask/mcptask/controllers/results"
)

const (
	// awaitLog is how long after the end of the work its log may be out of reach before the task ends without it.
	awaitLog = time.Minute
	// logTimeout bounds one try to read a log: a node that answers no more must not hold up other tasks.
	logTimeout = 30 * time.Second
)

// output is the result of work that has ended: what it handed over, else what it put out, as the tool's result.source says.
func (r *TaskReconciler) output(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input, verdict *decide.Verdict) (*v1alpha1.TaskResult, error) {
	out := verdict.Output
	if out == nil {
		return nil, nil
	}
	source, err := r.resultSource(ctx, task)
	if err != nil {
		return nil, err
	}
	if out.Reported != nil && source != v1alpha1.ResultSourceLog {
		result, err := results.Reported(out)
		if err == nil {
			return result, nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "the task ends with its log instead of the result that was handed over")
	}
	if out.Pod == nil {
		return results.Build(source, out, results.Log{}, "The Pod is gone, and its output with it."), nil
	}
	if source == v1alpha1.ResultSourceFile && out.Succeeded && jobs.HasSidecar(out.Pod) {
		return results.NothingHandedOver(), nil
	}
	var message string
	if t := ended(out.Pod.Status.ContainerStatuses, out.Container); t != nil {
		message = t.Message
	}
	log, err := r.readLog(ctx, out.Pod, out.Pod.Status.ContainerStatuses, out.Container, results.WorkTail, seen.Now)
	if err != nil {
		return nil, err
	}
	return results.Build(source, out, log, message), nil
}

func (r *TaskReconciler) resultSource(ctx context.Context, task *v1alpha1.McpTask) (v1alpha1.ResultSource, error) {
	var tool v1alpha1.McpTool
	switch err := r.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.ToolName}, &tool); {
	case err == nil:
		return tool.Spec.Result.Source, nil
	case apierrors.IsNotFound(err):
		return v1alpha1.ResultSourceAuto, nil
	default:
		return "", fmt.Errorf("reading the tool of the task %s: %w", task.Name, err)
	}
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
	log, err := r.readLog(ctx, pod, pod.Status.InitContainerStatuses, jobs.SidecarName, results.SidecarTail, seen.Now)
	if err != nil {
		return nil, err
	}
	left, err := results.Undelivered(log, pod.UID)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "the task ends without it")
	}
	return left, nil
}

// readLog reads the log of a container that has ended. The error says to try again; a log that stays out of reach is empty.
func (r *TaskReconciler) readLog(ctx context.Context, pod *corev1.Pod, statuses []corev1.ContainerStatus, container string, keep int, now time.Time) (results.Log, error) {
	if log, ok := r.LastWords.Log(pod.UID, container); ok {
		return log, nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	log, err := results.ReadLog(ctx, r.Kubernetes, pod, container, keep)
	if err == nil {
		return log, nil
	}
	// A Pod that is gone or never had a node has no log; a node that was away comes back. What ended while nobody looked is
	// waited for as long as what ended just now.
	since := now
	if t := ended(statuses, container); t != nil {
		since = t.FinishedAt.Time
	}
	if since.Before(r.began) {
		since = r.began
	}
	if pod.Spec.NodeName != "" && !apierrors.IsNotFound(err) && now.Sub(since) < awaitLog {
		return results.Log{}, err
	}
	ctrl.LoggerFrom(ctx).Error(err, "the task ends without its log", "container", container)
	return results.Log{}, nil
}

// ended is how a container ended, nil where it has not.
func ended(statuses []corev1.ContainerStatus, container string) *corev1.ContainerStateTerminated {
	for i := range statuses {
		if statuses[i].Name == container {
			return statuses[i].State.Terminated
		}
	}
	return nil
}
