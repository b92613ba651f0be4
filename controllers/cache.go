// Package controllers is the operator: it checks tools, runs each task's Job and writes what became of it.
package controllers

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// CacheOptions bounds what the operator keeps in memory: of Jobs and Pods only those that belong to tasks, and of
// each object only what a decision may rest on. What is left out is read live where it is needed.
func CacheOptions() cache.Options {
	ours, err := labels.Parse(v1alpha1.LabelTask)
	if err != nil {
		panic(err) // a constant
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.McpTask{}: {Transform: slimTask},
			&batchv1.Job{}:      {Label: ours, Transform: slimJob},
			&corev1.Pod{}:       {Label: ours, Transform: slimPod},
		},
	}
}

// slimTask drops the arguments, needed once, when the Job is made, the caller's capabilities, and the inline result, written once. Once the task has ended
// nothing is decided any more from what its Pods told, what they asked and what was answered.
func slimTask(o any) (any, error) {
	if task, ok := o.(*v1alpha1.McpTask); ok {
		task.ManagedFields = nil
		task.Spec.Arguments, task.Spec.ClientCapabilities = nil, nil
		if task.Status.Result != nil {
			task.Status.Result.Inline = nil
		}
		if task.Status.State.Terminal() {
			task.Status.Runtime, task.Status.InputRequests, task.Spec.InputResponses = nil, nil, nil
		}
	}
	return o, nil
}

// slimJob drops the Pod template.
func slimJob(o any) (any, error) {
	if job, ok := o.(*batchv1.Job); ok {
		job.ManagedFields = nil
		job.Spec.Template = corev1.PodTemplateSpec{}
		job.Status.UncountedTerminatedPods = nil
	}
	return o, nil
}

// slimPod keeps who the Pod is, where it is, which container is the work's, which of its containers are sidecars, its time and memory limits, whether its Job
// has yet to count it, and its status.
func slimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
		InitContainers: slimContainers(pod.Spec.InitContainers), Containers: slimContainers(pod.Spec.Containers),
	}
	annotations := map[string]string{}
	for _, kept := range []string{batchv1.JobCompletionIndexAnnotation, v1alpha1.AnnotationContainer} {
		if value, ok := pod.Annotations[kept]; ok {
			annotations[kept] = value
		}
	}
	finalizers := slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f != batchv1.JobTrackingFinalizer })
	pod.ObjectMeta = metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		Labels: pod.Labels, Annotations: annotations, Finalizers: finalizers, OwnerReferences: pod.OwnerReferences,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
	}
	return pod, nil
}

func slimContainers(all []corev1.Container) []corev1.Container {
	slim := make([]corev1.Container, 0, len(all))
	for _, c := range all {
		limits := corev1.ResourceList{}
		if memory, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
			limits[corev1.ResourceMemory] = memory
		}
		slim = append(slim, corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: corev1.ResourceRequirements{Limits: limits}})
	}
	return slim
}
