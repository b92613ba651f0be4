package jobs

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// checkRelease finds Jobs that cannot give back their Pod while a question is open: the Job is suspended meanwhile, and begins anew.
func checkRelease(tool *v1alpha1.McpTool) (faults field.ErrorList) {
	template := &tool.Spec.JobTemplate
	at := field.NewPath("spec", "jobTemplate")
	const why = " with runtime.whileWaiting Release"
	for _, pods := range []struct {
		field string
		n     *int32
	}{{"completions", template.Spec.Completions}, {"parallelism", template.Spec.Parallelism}} {
		if pods.n != nil && *pods.n != 1 {
			faults = append(faults, field.Invalid(at.Child("spec", pods.field), *pods.n, "must be 1"+why+": the Pods of one Job are all given back or none, and some may be at work"))
		}
	}
	if queue := template.Labels[decide.LabelQueue]; queue != "" {
		faults = append(faults, field.Invalid(at.Child("metadata", "labels").Key(decide.LabelQueue), queue, "must be absent"+why+": Kueue resumes what others suspend"))
	}
	if m := template.Spec.ManagedBy; m != nil && *m != batchv1.JobControllerName {
		faults = append(faults, field.Invalid(at.Child("spec", "managedBy"), *m, "must be absent"+why+": it is Kubernetes' own Job controller that is known not to count a suspension as a failure"))
	}
	if policy := template.Spec.PodFailurePolicy; policy != nil {
		for i, rule := range policy.Rules {
			if rule.Action == batchv1.PodFailurePolicyActionFailJob && rule.OnExitCodes != nil {
				faults = append(faults, field.Forbidden(at.Child("spec", "podFailurePolicy", "rules").Index(i),
					"FailJob with onExitCodes is not possible"+why+": the Job controller applies it to Pods that it ends itself, too"))
			}
		}
	}
	return faults
}
