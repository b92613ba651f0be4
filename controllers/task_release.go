package controllers

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// The clock of a released Job's activeDeadlineSeconds is set back before it goes on.
// +kubebuilder:rbac:groups=batch,resources=jobs/status,verbs=patch

// Reasons of the Events about Pods that are given back while a person thinks.
const (
	eventReleased = "PodReleased"
	eventResumed  = "PodResumed"
)

// waitWithoutPod suspends the Job of work that only waits, which ends its Pod with its grace period and counts as no failure, or lets
// it go on: it makes a new Pod once the last one has gone. Who did that, and for which Pod, stands on the Job from the same moment on.
// It is written only if the Job is still the one that this was decided from.
func (r *TaskReconciler) waitWithoutPod(ctx context.Context, task *v1alpha1.McpTask, job *batchv1.Job, release *decide.Release) error {
	mark, err := release.Text()
	if err != nil {
		return err
	}
	job = job.DeepCopy()
	if release.Resumed && job.Spec.ActiveDeadlineSeconds != nil && job.Status.StartTime != nil {
		// Before Kubernetes 1.36 the Job controller leaves the time of the first start there, finds on resuming that the deadline has
		// passed since, and fails the Job.
		before := job.DeepCopy()
		job.Status.StartTime = nil
		if err := r.Status().Patch(ctx, job, unchanged(before)); err != nil {
			return fmt.Errorf("setting back the clock of the Job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	changed := job.DeepCopy()
	changed.Spec.Suspend = ptr.To(!release.Resumed)
	changed.Annotations[v1alpha1.AnnotationReleased] = mark
	if err := r.Patch(ctx, changed, unchanged(job)); err != nil {
		return fmt.Errorf("suspending or resuming the Job %s/%s, which waits for an answer: %w", job.Namespace, job.Name, err)
	}
	r.tellRelease(task, changed)
	return nil
}

// tellRelease makes an Event of what stands on the Job about its Pod: that it was given back, or that the Job goes on. Which Pod, and
// after how many answers, is part of its action, so that a person hears of each time.
func (r *TaskReconciler) tellRelease(task *v1alpha1.McpTask, job *batchv1.Job) {
	switch given := decide.ReleaseOf(job); {
	case given == nil:
	case given.Resumed:
		r.Events.Eventf(task, job, corev1.EventTypeNormal, eventResumed, fmt.Sprintf("Resume %s after %d", given.Pod, given.Answers), "an answer has come: the work gets a Pod again")
	case decide.Released(job):
		r.Events.Eventf(task, job, corev1.EventTypeNormal, eventReleased, fmt.Sprintf("Release %s after %d", given.Pod, given.Answers), "the work only waits: its Pod is given back until an answer comes")
	}
}

// unchanged makes a patch of what differs from a Job, if the Job is still that version.
func unchanged(job *batchv1.Job) client.Patch {
	return client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{})
}

// forgetReplaced drops the reports of Pods that are gone and were replaced: what they asked stands in the task's questions, and how the
// work ended another will say. However often a Pod is given back, the task does not grow.
func forgetReplaced(status *v1alpha1.McpTaskStatus, pods []corev1.Pod) {
	if len(status.Runtime) < 2 || len(status.PodUIDs) == 0 {
		return
	}
	last := status.PodUIDs[len(status.PodUIDs)-1]
	status.Runtime = slices.DeleteFunc(status.Runtime, func(report v1alpha1.RuntimeReport) bool {
		return report.PodUID != last && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == report.PodUID })
	})
}
