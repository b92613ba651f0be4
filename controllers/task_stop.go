package controllers

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// stop brings the Job of a cancelled or failed task to its end. Work that runs is asked to end and keeps its whole grace
// period, its exit code and its log: no further attempt is allowed, and the Pod gets a deadline
// that has passed. A Job whose work never began is deleted, and so is one whose Pod was given back, and one that makes an
// attempt in spite of that. Pods that were left behind by a deleted Job are ended too.
func (r *TaskReconciler) stop(ctx context.Context, task *v1alpha1.McpTask, seen *decide.Input) error {
	job := seen.Job
	if job != nil {
		if !metav1.IsControlledBy(job, task) || !job.DeletionTimestamp.IsZero() || decide.Ended(job) {
			return nil
		}
		idle := task.Status.State.Terminal() && (decide.NothingRuns(seen) || decide.Released(job))
		if idle || decide.TriedAgain(seen.Pods) {
			err := r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the Job %s/%s: %w", job.Namespace, job.Name, err)
			}
			return nil
		}
		if err := r.noMoreAttempts(ctx, job); err != nil {
			return err
		}
	}
	for i := range seen.Pods {
		if err := r.endPod(ctx, &seen.Pods[i], stopDeadline); err != nil {
			return err
		}
	}
	return nil
}

func (r *TaskReconciler) noMoreAttempts(ctx context.Context, job *batchv1.Job) error {
	if job.Spec.BackoffLimit != nil && *job.Spec.BackoffLimit == 0 {
		return nil
	}
	before := job.DeepCopy()
	job.Spec.BackoffLimit = ptr.To[int32](0)
	if err := r.Patch(ctx, job, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ending the retries of the Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// Deadlines of Pods that are to end, in seconds: that of a Pod whose work is stopped (decide tells it by that), and that of a Pod whose
// work has ended and which what runs beside it keeps from ending.
const stopDeadline, restDeadline = 1, 2

// endPod lets the node end the Pod as if its time were up.
func (r *TaskReconciler) endPod(ctx context.Context, pod *corev1.Pod, deadline int64) error {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && *d <= deadline {
		return nil
	}
	before := pod.DeepCopy()
	pod.Spec.ActiveDeadlineSeconds = &deadline
	if err := r.Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ending the Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
