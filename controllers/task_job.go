package controllers

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// awaitPods is how long after its start a Job may count Pods that the cache does not show, before they are looked for live.
const awaitPods = 10 * time.Second

// job is the task's Job; gone says that there is none any more although the task had one. That is said only after a live read: the
// cache may be behind, and it does not show a Job that somebody has taken our label from.
func (r *TaskReconciler) job(ctx context.Context, task *v1alpha1.McpTask, live bool) (job *batchv1.Job, gone bool, err error) {
	from := client.Reader(r.Client)
	if live {
		from = r.Live
	}
	key, had := client.ObjectKeyFromObject(task), task.Status.JobRef
	job = &batchv1.Job{}
	err = from.Get(ctx, key, job)
	missing := func() bool { return apierrors.IsNotFound(err) || err == nil && had != nil && had.UID != job.UID }
	if missing() && had != nil && !live && !task.Status.State.Terminal() {
		job = &batchv1.Job{}
		err = r.Live.Get(ctx, key, job)
	}
	switch {
	case missing(): // or another of the same name
		return nil, had != nil, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading the Job of the task %s: %w", key, err)
	}
	return job, false, nil
}

// pods are the Pods of the task's Job, oldest first; of a Job that is gone those that the task has known. Where the cache shows
// fewer than the Job counts they are read live: what they put out is the result, and it is not called lost on the word of a watch
// that is behind, or that does not show a Pod without our label. What was deleted is as it was last seen; a Pod that is no attempt stands apart.
func (r *TaskReconciler) pods(ctx context.Context, task *v1alpha1.McpTask, job *batchv1.Job, live bool, now time.Time) (pods []corev1.Pod, ending *corev1.Pod, err error) {
	if uid := decide.GivenBack(job); uid != "" {
		r.LastWords.Disown(client.ObjectKeyFromObject(task), uid)
	}
	var apart []corev1.Pod
	if pods, err = r.listPods(ctx, r.Client, task, job, client.MatchingFields{taskIndex: task.Name}); err != nil {
		return nil, nil, err
	}
	pods, apart = r.apart(task, job, r.withRemembered(task, job, pods))
	working := job != nil && !task.Status.State.Terminal()
	if working && (live || decide.Ended(job) && !decide.Settled(job, pods) || hidden(job, pods, now)) {
		if pods, err = r.listPods(ctx, r.Live, task, job, client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
			return nil, nil, err
		}
		for i := range pods {
			if err := r.label(ctx, &pods[i], task); err != nil {
				return nil, nil, err
			}
		}
		pods, apart = r.apart(task, job, r.withRemembered(task, job, pods))
	}
	sort.SliceStable(pods, func(i, j int) bool { return pods[i].CreationTimestamp.Before(&pods[j].CreationTimestamp) })
	for i := range apart {
		if ending == nil || ending.CreationTimestamp.Before(&apart[i].CreationTimestamp) {
			ending = &apart[i]
		}
	}
	return pods, ending, nil
}

// apart takes those Pods out that are no attempts (decide.Apart), for good: at its end a node deletes a Pod once more, and that does not
// show any more when it was told to go.
func (r *TaskReconciler) apart(task *v1alpha1.McpTask, job *batchv1.Job, pods []corev1.Pod) (attempts, apart []corev1.Pod) {
	all, apart := decide.Apart(job, pods)
	for _, pod := range all {
		if pod.DeletionTimestamp != nil && r.LastWords.Disowned(pod.UID) {
			apart = append(apart, pod)
		} else {
			attempts = append(attempts, pod)
		}
	}
	for i := range apart {
		r.LastWords.Disown(client.ObjectKeyFromObject(task), apart[i].UID)
	}
	return attempts, apart
}

func (r *TaskReconciler) listPods(ctx context.Context, from client.Reader, task *v1alpha1.McpTask, job *batchv1.Job, selector client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := from.List(ctx, &list, client.InNamespace(task.Namespace), selector); err != nil {
		return nil, fmt.Errorf("listing the Pods of the task %s/%s: %w", task.Namespace, task.Name, err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !belongs(&pod, task, job) }), nil
}

// belongs says whether the Pod is the task's: its Job's, or that of a Job that is gone or going.
func belongs(pod *corev1.Pod, task *v1alpha1.McpTask, job *batchv1.Job) bool {
	if job != nil && (job.DeletionTimestamp == nil || metav1.IsControlledBy(pod, job)) {
		return metav1.IsControlledBy(pod, job)
	}
	// A Job that is deleted alone lets go of its Pods first.
	owner := metav1.GetControllerOfNoCopy(pod)
	return slices.Contains(task.Status.PodUIDs, pod.UID) || owner != nil && task.Status.JobRef != nil && owner.UID == task.Status.JobRef.UID
}

// hidden says whether the Job has long had more Pods at work than are seen.
func hidden(job *batchv1.Job, pods []corev1.Pod, now time.Time) bool {
	active := job.Status.Active
	for i := range pods {
		if phase := pods[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			active--
		}
	}
	return active > 0 && job.Status.StartTime != nil && now.Sub(job.Status.StartTime.Time) > awaitPods
}

// label puts our label back on a Job or a Pod of the task: by it they are watched.
func (r *TaskReconciler) label(ctx context.Context, o client.Object, task *v1alpha1.McpTask) error {
	if o.GetLabels()[v1alpha1.LabelTask] == task.Name {
		return nil
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelTask, task.Name))
	if err := r.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("giving the %T %s/%s its label %s back: %w", o, o.GetNamespace(), o.GetName(), v1alpha1.LabelTask, err)
	}
	return nil
}
