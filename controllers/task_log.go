package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// readLog gives the log of a container that has ended to use, which holds up others with large logs for as long as it runs. The
// error says to try again; of a log that stays out of reach what was heard of it is given, or why there is nothing.
func (r *TaskReconciler) readLog(ctx context.Context, pod *corev1.Pod, statuses []corev1.ContainerStatus, container string, keep int, now time.Time, use func(results.Log) error) error {
	heard, listened := r.LastWords.Log(pod.UID, container)
	listened = listened && !results.InsteadOfLog(heard.Tail, pod, container)
	log, large, err := r.fetchLog(ctx, pod, container, keep)
	if large {
		defer r.large.Release(1)
	}
	switch {
	case errors.Is(err, errLogsBusy):
		return err
	case err == nil && !(listened && heard.Size > log.Size):
		return use(log)
	case err == nil:
		return use(heard)
	}
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
	return use(heard)
}

// fetchLog reads a log, if its node is not busy with others. large says that it took the room of a large one, which is to be given back
// once the log is not needed any more, also after an error.
func (r *TaskReconciler) fetchLog(ctx context.Context, pod *corev1.Pod, container string, keep int) (log results.Log, large bool, err error) {
	done, ok := r.logs.begin(pod.Spec.NodeName, r.Now())
	if !ok {
		return results.Log{}, false, errLogsBusy
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(logTimeout, func() { cancel(fmt.Errorf("nothing came for %s", logTimeout)) })
	defer timer.Stop()
	take := func(much bool) error {
		timer.Reset(logTimeout)
		if !much || large {
			return nil
		}
		timer.Stop() // the node is not to blame for this wait
		if err := r.large.Acquire(ctx, 1); err != nil {
			return fmt.Errorf("waiting for other large logs: %w", err)
		}
		large = true
		timer.Reset(logTimeout)
		return nil
	}
	log, err = results.ReadLog(ctx, r.Kubernetes, pod, container, keep, take)
	return log, large, err
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
