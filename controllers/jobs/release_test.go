package jobs

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func releasingTool() *v1alpha1.McpTool {
	tool := askingTool()
	tool.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object"}`)}
	tool.Spec.Runtime.WhileWaiting = v1alpha1.WhileWaitingRelease
	return tool
}

func TestJobsThatCannotGiveBackTheirPodAreRefused(t *testing.T) {
	rule := func(action batchv1.PodFailurePolicyAction, codes *batchv1.PodFailurePolicyOnExitCodesRequirement) *batchv1.PodFailurePolicy {
		return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: action, OnExitCodes: codes}}}
	}
	codes := &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{3}}
	for name, tc := range map[string]struct {
		change func(*batchv1.JobTemplateSpec)
		words  string
	}{
		"one Pod": {func(*batchv1.JobTemplateSpec) {}, ""},
		"one Pod, said so": {func(j *batchv1.JobTemplateSpec) {
			j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](1), ptr.To[int32](1)
		}, ""},
		"one after another":    {func(j *batchv1.JobTemplateSpec) { j.Spec.Completions = ptr.To[int32](3) }, "spec.jobTemplate.spec.completions: Invalid value: 3: must be 1"},
		"side by side":         {func(j *batchv1.JobTemplateSpec) { j.Spec.Parallelism = ptr.To[int32](2) }, "spec.jobTemplate.spec.parallelism: Invalid value: 2: must be 1"},
		"in a queue of Kueue":  {func(j *batchv1.JobTemplateSpec) { j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "gpu"} }, "Kueue resumes what others suspend"},
		"run by somebody else": {func(j *batchv1.JobTemplateSpec) { j.Spec.ManagedBy = ptr.To("example.com/other") }, "spec.jobTemplate.spec.managedBy"},
		"fails by exit code": {func(j *batchv1.JobTemplateSpec) {
			j.Spec.PodFailurePolicy = rule(batchv1.PodFailurePolicyActionFailJob, codes)
		}, "podFailurePolicy.rules[0]: Forbidden: FailJob"},
		"ignores an exit code": {func(j *batchv1.JobTemplateSpec) {
			j.Spec.PodFailurePolicy = rule(batchv1.PodFailurePolicyActionIgnore, codes)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tool := releasingTool()
			tc.change(&tool.Spec.JobTemplate)
			fault := Check(tool, testRuntime)
			switch {
			case tc.words == "" && fault != nil:
				t.Error(fault)
			case tc.words != "" && (fault == nil || fault.Reason != v1alpha1.ReasonInvalidTemplate || !strings.Contains(fault.Error(), tc.words)):
				t.Errorf("got %v", fault)
			}
			tool.Spec.Runtime.WhileWaiting = v1alpha1.WhileWaitingHold
			if fault := Check(tool, testRuntime); fault != nil {
				t.Errorf("a tool that holds its Pod is refused: %v", fault)
			}
		})
	}
}
