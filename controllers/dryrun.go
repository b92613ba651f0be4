package controllers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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

// refused says whether the API server refused the object for what it is.
func refused(err error) bool {
	return !quotaFull(err) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err))
}

func quotaFull(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

var madeUpName = regexp.MustCompile(`^\S+ "[a-z2-7]{26}" is (invalid|forbidden): `)

// admissionWords is what the API server said of a change that it did not take: a webhook does not answer, or somebody forbids it. ok is
// false where the change failed in another way, which is tried again and passes.
func admissionWords(err error) (words string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInternalError(err) && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return "", false
	}
	return status.Status().Message, true
}

// refusalWords is what the API server said, with the paths of the tool and without the made-up name.
func refusalWords(err error, at string) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
			words := make([]string, 0, len(details.Causes))
			for _, cause := range details.Causes {
				if cause.Type == corev1.NamespaceTerminatingCause {
					return cause.Message // which is no fault of a field
				}
				if cause.Field == "" { // of no field, for instance of a webhook that does not answer
					return at + ": " + madeUpName.ReplaceAllString(err.Error(), "")
				}
				words = append(words, at+"."+cause.Field+": "+cause.Message)
			}
			return strings.Join(words, "; ")
		}
	}
	return at + ": " + madeUpName.ReplaceAllString(err.Error(), "")
}
