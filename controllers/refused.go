package controllers

import (
	"errors"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refused says whether the API server refused the object for what it is.
func refused(err error) bool {
	return !quotaFull(err) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err))
}

// quotaFull says whether a quota of the namespace has no room, which passes.
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
	whole := at + ": " + madeUpName.ReplaceAllString(err.Error(), "")
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
			words := make([]string, 0, len(details.Causes))
			for _, cause := range details.Causes {
				if cause.Type == corev1.NamespaceTerminatingCause {
					return cause.Message // which is no fault of a field
				}
				if cause.Field == "" { // of no field, for instance of a webhook that does not answer
					return whole
				}
				words = append(words, at+"."+cause.Field+": "+cause.Message)
			}
			return strings.Join(words, "; ")
		}
	}
	return whole
}
