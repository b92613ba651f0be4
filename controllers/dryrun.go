package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// dryRun asks the API server whether it would take the tool's Job, and the Pod that the Job would make: only the Pod shows a
// missing service account or a breach of the namespace's Pod security.
func (r *ToolReconciler) dryRun(ctx context.Context, tool *v1alpha1.McpTool) (*jobs.Fault, error) {
	job, err := jobs.Sample(tool, r.Runtime)
	if err != nil {
		return &jobs.Fault{Reason: v1alpha1.ReasonInvalidArguments, Err: err}, nil
	}
	if fault, err := judge(r.Create(ctx, job.DeepCopy(), client.DryRunAll), ofTemplate); fault != nil || err != nil {
		return fault, err
	}
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
	pod.Name, pod.Namespace = job.Name, job.Namespace
	return judge(r.Create(ctx, pod, client.DryRunAll), ofTemplate+".spec.template")
}

// judge tells what the API server's answer says of the object: a refusal is a fault, and passing trouble an error to try
// again. A full quota says nothing of the object, nor does a webhook that cannot be asked in a dry run.
func judge(err error, at string) (*jobs.Fault, error) {
	switch {
	case err == nil, quotaFull(err), apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"):
		return nil, nil
	case refused(err):
		return &jobs.Fault{Reason: v1alpha1.ReasonJobRefused, Err: errors.New(refusalWords(err, at))}, nil
	}
	return nil, fmt.Errorf("dry run of %s: %w", at, err)
}
