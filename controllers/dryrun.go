package controllers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// dryRun asks the API server whether it would take the tool's Job, and the Pod that the Job would make: only the Pod shows a
// missing service account or a breach of the namespace's Pod security.
func (r *ToolReconciler) dryRun(ctx context.Context, tool *v1alpha1.McpTool) (*jobs.Fault, error) {
	job, err := jobs.Build(tool, &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: tool.Namespace}})
	if err != nil {
		return &jobs.Fault{Reason: v1alpha1.ReasonInvalidArguments, Err: err}, nil
	}
	if err := r.Create(ctx, job.DeepCopy(), client.DryRunAll); err != nil {
		return refusal(err, "spec.jobTemplate")
	}
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
	pod.Name, pod.Namespace = job.Name, job.Namespace
	if err := r.Create(ctx, pod, client.DryRunAll); err != nil {
		return refusal(err, "spec.jobTemplate.spec.template")
	}
	return nil, nil
}

// refusal tells a verdict on the object from a passing trouble, which is an error to try again.
func refusal(err error, at string) (*jobs.Fault, error) {
	if !refused(err) {
		return nil, fmt.Errorf("dry run of %s: %w", at, err)
	}
	return &jobs.Fault{Reason: v1alpha1.ReasonJobRefused, Err: errors.New(refusalWords(err, at))}, nil
}

// refused says whether the API server refused the object for what it is. A full quota is no fault of the
// object, nor is a webhook that cannot be asked in a dry run.
func refused(err error) bool {
	words := err.Error()
	if strings.Contains(words, "exceeded quota") || strings.Contains(words, "does not support dry run") || strings.Contains(words, "failed calling webhook") {
		return false
	}
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

var madeUpName = regexp.MustCompile(`^\S+ "[a-z2-7]{26}" is (invalid|forbidden): `)

// refusalWords is what the API server said, with the paths of the tool and without the made-up name.
func refusalWords(err error, at string) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
			words := make([]string, 0, len(details.Causes))
			for _, cause := range details.Causes {
				words = append(words, at+"."+cause.Field+": "+cause.Message)
			}
			return strings.Join(words, "; ")
		}
	}
	return at + ": " + madeUpName.ReplaceAllString(err.Error(), "")
}
