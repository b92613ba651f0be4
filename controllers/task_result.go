package controllers

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// A result that is too large for its task is stored in Secrets. They are made and never read: their names follow from what is in them.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create

// largeOutputs is how many outputs that take much memory are held at one time: each may take about eight times what is kept of it.
const largeOutputs = 2

// store keeps a result where it belongs: in the task, or in Secrets of its own. They are there before the task says so.
func (r *TaskReconciler) store(ctx context.Context, task *v1alpha1.McpTask, kept *fit.Kept) (*v1alpha1.TaskResult, error) {
	result := &v1alpha1.TaskResult{Size: kept.Size, SHA256: resultsecret.Hash(kept.Raw), Truncated: kept.Truncated, IsError: kept.IsError}
	if len(kept.Raw) <= fit.MaxInline {
		result.Inline = &runtime.RawExtension{Raw: kept.Raw}
		return result, nil
	}
	size := int64(len(kept.Raw))
	err := resultsecret.Write(ctx, task, result.SHA256, size, bytes.NewReader(kept.Raw), r.createPart)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		// A quota, a webhook, or a namespace that is being deleted: that must not keep the task from ending.
		ctrl.LoggerFrom(ctx).Error(err, "the result is cut: the cluster does not take its Secrets")
		return r.cutInline(kept)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the result of the task %s/%s: %w", task.Namespace, task.Name, err)
	}
	result.SecretRef = resultsecret.Reference(task, result.SHA256, size)
	return result, nil
}

// createPart makes one Secret. What is there already was made by an earlier try: nobody else may make Secrets of this type, and
// who reads it compares the hash.
func (r *TaskReconciler) createPart(ctx context.Context, part *corev1.Secret) error {
	return client.IgnoreAlreadyExists(r.Create(ctx, part))
}

// cutInline keeps of a result what fits into the task.
func (r *TaskReconciler) cutInline(whole *fit.Kept) (*v1alpha1.TaskResult, error) {
	kept, err := fit.Result(whole.Raw, fit.MaxInline)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.TaskResult{
		Inline: &runtime.RawExtension{Raw: kept.Raw}, SHA256: resultsecret.Hash(kept.Raw),
		Size: max(whole.Size, kept.Size), Truncated: true, IsError: kept.IsError,
	}, nil
}
