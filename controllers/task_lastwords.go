package controllers

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/results"
)

const (
	// maxErrorLog is how many bytes of a log's end stand in the error of a task that the cluster could not run to its end.
	maxErrorLog = 4 << 10
	// errorLogTimeout bounds the one try to read that log: the Pod, or its node, is often gone.
	errorLogTimeout = 5 * time.Second
)

// openLog follows the log of a container from its beginning.
func openLog(client kubernetes.Interface) func(context.Context, *corev1.Pod, string) (io.ReadCloser, error) {
	return func(ctx context.Context, pod *corev1.Pod, container string) (io.ReadCloser, error) {
		return client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	}
}

// listen hears out the Pods of the task that are being taken away.
func (r *TaskReconciler) listen(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input) {
	for i := range seen.Pods {
		pod := &seen.Pods[i]
		if decide.Leaving(seen, pod) && !r.LastWords.Follow(client.ObjectKeyFromObject(task), pod, decide.WorkContainer(seen, pod)) {
			ctrl.LoggerFrom(ctx).Info("too many Pods are being deleted at a time to listen to this one", "pod", pod.Name)
		}
	}
}

// withRemembered adds the Pods that were seen being deleted and are gone. Those that are still there keep the deletion that was asked for
// first.
func (r *TaskReconciler) withRemembered(task *v1alpha1.McpTask, job *batchv1.Job, pods []corev1.Pod) []corev1.Pod {
	for _, was := range r.LastWords.Pods(client.ObjectKeyFromObject(task)) {
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.UID == was.UID })
		switch {
		case i >= 0:
			pods[i].DeletionTimestamp, pods[i].DeletionGracePeriodSeconds = was.DeletionTimestamp, was.DeletionGracePeriodSeconds
		case belongs(&was, task, job):
			pods = append(pods, was)
		}
	}
	return pods
}

// errorData is error.data of a task that the cluster could not run to its end, where its work ran: how that ended, and the end of its log.
type errorData struct {
	ExitCode int32  `json:"exitCode"`
	Log      string `json:"log,omitempty"`
	// LogBytes is the size of the whole log, said where only its end is shown.
	LogBytes int64 `json:"logBytes,omitempty"`
}

// lastWords are the data of the error of a task whose work was cut off, nil where there was none.
func (r *TaskReconciler) lastWords(ctx context.Context, out *decide.Output) (*runtime.RawExtension, error) {
	if out == nil || out.Pod == nil {
		return nil, nil
	}
	log, ok := r.LastWords.Log(out.Pod.UID, out.Container)
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, errorLogTimeout)
		defer cancel()
		var err error
		if log, err = results.ReadLog(ctx, r.Kubernetes, out.Pod, out.Container, results.SmallTail, func(bool) error { return nil }); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("the task ends without its log", "cause", err.Error())
		}
	}
	data := errorData{ExitCode: out.ExitCode, Log: fit.End(strings.ToValidUTF8(string(log.Tail), "\uFFFD"), maxErrorLog)}
	if int64(len(data.Log)) < log.Size {
		data.LogBytes = log.Size
	}
	raw, err := json.Marshal(data)
	return &runtime.RawExtension{Raw: raw}, err
}

// podEvents wakes the task of a Pod, and remembers the Pod while it is being deleted.
func (r *TaskReconciler) podEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	saw := func(o client.Object, gone bool, q queue) {
		task := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[v1alpha1.LabelTask]}
		if pod, ok := o.(*corev1.Pod); ok {
			r.LastWords.See(task, pod, gone)
		}
		q.Add(reconcile.Request{NamespacedName: task})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { saw(e.Object, false, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { saw(e.ObjectNew, false, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			// A Pod without a deletion timestamp has lost our label, no more.
			saw(e.Object, e.Object.GetDeletionTimestamp() != nil, q)
		},
	}
}
