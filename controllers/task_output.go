package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
	"github.com/mcptask/mcptask/controllers/results"
)

const (
	// awaitLog is how long after the end of the work its log may be out of reach before the task ends without it: as long as Kubernetes
	// waits for a node before it gives up the Pods on it.
	awaitLog = 5 * time.Minute
	// logTimeout is how long a log that is being read may bring nothing: a node that answers no more must not hold up other tasks.
	logTimeout = 10 * time.Second
)

// podGone is what the result says of work whose Pod, or its node, was removed before its output was read.
const podGone = "The Pod is gone, and its output with it."

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

// readLog gives the log of a container that has ended to use, which holds up others with large logs for as long as it runs. The
// error says to try again; of a log that stays out of reach what was heard of it is given, or why there is nothing.
func (r *TaskReconciler) readLog(ctx context.Context, pod *corev1.Pod, statuses []corev1.ContainerStatus, container string, keep int, now time.Time, use func(results.Log) error) error {
	heard, listened := r.LastWords.Log(pod.UID, container)
	listened = listened && !results.InsteadOfLog(heard.Tail, pod, container)
	done, ok := r.logs.begin(pod.Spec.NodeName, r.Now())
	if !ok {
		return errLogsBusy
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(logTimeout, func() { cancel(fmt.Errorf("nothing came for %s", logTimeout)) })
	defer timer.Stop()
	held := false
	defer func() {
		if held {
			r.large.Release(1)
		}
	}()
	take := func(large bool) error {
		timer.Reset(logTimeout)
		if !large || held {
			return nil
		}
		timer.Stop() // the node is not to blame for this wait
		if err := r.large.Acquire(reading, 1); err != nil {
			return fmt.Errorf("waiting for other large logs: %w", err)
		}
		held = true
		timer.Reset(logTimeout)
		return nil
	}
	log, err := results.ReadLog(reading, r.Kubernetes, pod, container, keep, take)
	timer.Stop()
	done()
	if err == nil && !(listened && heard.Size > log.Size) {
		return use(log)
	}
	if err != nil {
		there, lookErr := r.mayComeBack(ctx, pod, err)
		if lookErr != nil {
			return lookErr
		}
		if there && now.Sub(r.lookedAtSince(statuses, container, now)) < awaitLog {
			return err
		}
		ctrl.LoggerFrom(ctx).Error(err, "the task ends without its log, or with what was heard of it", "container", container, "heard", listened)
		switch {
		case listened:
		case there:
			heard = results.Log{Lost: fmt.Sprintf("The output is lost: its node has not given it for %s.", awaitLog)}
		default:
			heard = results.Log{Lost: podGone}
		}
	}
	return use(heard)
}

// mayComeBack says whether a log that cannot be read may be read later. A Pod that is gone, never had a node, or whose node is gone has no
// log; a node that was away comes back. A kubelet that has just started says that it knows no such Pod, in the API server's own words
// (k8s.io/kubernetes/pkg/kubelet/server, getContainerLogs): so the Pod is looked for.
func (r *TaskReconciler) mayComeBack(ctx context.Context, pod *corev1.Pod, err error) (bool, error) {
	if pod.Spec.NodeName == "" {
		return false, nil
	}
	if !apierrors.IsNotFound(err) {
		return true, nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "nodes" {
		return false, nil
	}
	there := &corev1.Pod{}
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), there); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for the Pod %s/%s, whose log cannot be read: %w", pod.Namespace, pod.Name, err)
	}
	return there.UID == pod.UID, nil
}

// lookedAtSince is since when the log of a container could be read: what ended while nobody looked is waited for as long as what ended
// just now.
func (r *TaskReconciler) lookedAtSince(statuses []corev1.ContainerStatus, container string, now time.Time) time.Time {
	since := now
	if t := ended(statuses, container); t != nil {
		since = t.FinishedAt.Time
	}
	if since.Before(r.began) {
		since = r.began
	}
	return since
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
