//go:build integration

package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestWorkThatWasCutOffSaysByWhat(t *testing.T) {
	killed := func(code int32, reason, podReason, words string) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			ended(code, "")(s)
			s.ContainerStatuses[0].State.Terminated.Reason = reason
			s.Reason, s.Message = podReason, words
		}
	}
	for name, tc := range map[string]struct {
		tool   func(*v1alpha1.McpToolSpec)
		status func(*corev1.PodStatus)
		state  v1alpha1.TaskState
		reason string
		words  []string
	}{
		"out of memory": {nil, killed(137, "OOMKilled", "", ""), v1alpha1.TaskCompleted, v1alpha1.ReasonOOMKilled, []string{"more memory than its limit"}},
		"evicted": {nil, killed(137, "Error", "Evicted", "The node was low on resource: memory."), v1alpha1.TaskFailed, v1alpha1.ReasonEvicted,
			[]string{"low on resource: memory", "exit code 137"}},
		"the Job's time limit": {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.ActiveDeadlineSeconds = ptr.To[int64](3) }, nil,
			v1alpha1.TaskFailed, v1alpha1.ReasonDeadlineExceeded, []string{"of 3 s and was stopped"}},
		"the Pod's time limit": {func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](3)
		},
			killed(143, "Error", "DeadlineExceeded", ""), v1alpha1.TaskFailed, v1alpha1.ReasonDeadlineExceeded, []string{"of 3 s and was stopped", "exit code 143"}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			startOperator(t, ns, faults{})
			task := callOf(readyTool(t, ns, tc.tool), `{}`)
			create(t, task)
			pod := awaitPod(t, task)
			play(t, pod, runningSince(metav1.Now()))
			if tc.status != nil {
				play(t, pod, tc.status)
			}
			awaitState(t, task, tc.state, tc.reason)
			for _, words := range tc.words {
				if !strings.Contains(task.Status.Message, words) {
					t.Errorf("%q lacks %q", task.Status.Message, words)
				}
			}
			if task.Status.State == v1alpha1.TaskFailed && !strings.Contains(task.Status.Error.Message, tc.words[0]) {
				t.Errorf("error %+v", task.Status.Error)
			}
		})
	}
}
