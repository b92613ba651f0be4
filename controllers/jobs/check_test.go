package jobs

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestPreflightQuestionsAreArguments(t *testing.T) {
	for name, tc := range map[string]struct{ input, question, words string }{
		"an argument":          {`{"type":"object","properties":{"who":{"type":"object"}}}`, "who", ""},
		"no argument":          {`{"type":"object","properties":{"who":{"type":"object"}}}`, "where", "spec.preflight[0].name"},
		"a required argument":  {`{"type":"object","properties":{"who":{"type":"object"}},"required":["who"]}`, "who", "must not be among inputSchema's required"},
		"no properties at all": {`{"type":"object"}`, "who", "must be a property of inputSchema"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := &v1alpha1.McpTool{}
			tool.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(tc.input)}
			tool.Spec.Preflight = []v1alpha1.PreflightQuestion{{Name: tc.question, Message: "?", Schema: runtime.RawExtension{Raw: []byte(`{"type":"object"}`)}}}
			tool.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "work"}}
			fault := Check(tool, Runtime{})
			if tc.words == "" {
				if fault != nil {
					t.Error(fault)
				}
				return
			}
			if fault == nil || fault.Reason != v1alpha1.ReasonInvalidArguments || !strings.Contains(fault.Error(), tc.words) {
				t.Errorf("got %v", fault)
			}
		})
	}
}
