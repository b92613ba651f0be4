package controllers

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWhatTheAPIServerSaidOfAJob(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a field": {apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "ejunsay4b7orlst43h7dibqr43", field.ErrorList{field.Required(field.NewPath("spec", "template"), "")}), "spec.jobTemplate.spec.template: Required value"},
		"a webhook that does not answer": {apierrors.NewInternalError(errors.New(`failed calling webhook "mjob.kb.io": connection refused`)),
			`spec.jobTemplate: Internal error occurred: failed calling webhook "mjob.kb.io": connection refused`},
		"a quota": {apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "ejunsay4b7orlst43h7dibqr43", errors.New("exceeded quota")), "spec.jobTemplate: exceeded quota"},
	} {
		if got := refusalWords(tc.err, ofTemplate); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
