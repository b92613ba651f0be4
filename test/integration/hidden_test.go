//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestAJobWithoutOurLabelIsFollowed(t *testing.T) {
	for name, value := range map[string]string{"removed": "null", "changed": `"somebody-elses"`} {
		t.Run(name, func(t *testing.T) {
			task := calledTool(t, nil)
			pod := awaitRunning(t, task)
			job := jobOf(task)
			unlabel := mergePatch(fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, v1alpha1.LabelTask, value))
			for _, o := range []client.Object{job, pod} {
				if err := k8s.Patch(t.Context(), o, unlabel); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the Job has its label back", func() error {
				if err := read(t, job); err != nil {
					return err
				}
				if job.Labels[v1alpha1.LabelTask] != task.Name {
					return fmt.Errorf("labels %v", job.Labels)
				}
				return nil
			})
			play(t, pod, ended(0, "done"))
			awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
			if !strings.Contains(string(task.Status.Result.Inline.Raw), "done") {
				t.Errorf("result %s", task.Status.Result.Inline.Raw)
			}
		})
	}
}

// The Pod of an attempt may go before anybody has seen it: what the attempt before said is not its result.
func TestWhatAFailedAttemptSaidIsNotItsRetrys(t *testing.T) {
	retried := func(t *testing.T) (*v1alpha1.McpTask, *corev1.Pod, *operator) {
		ns := newNamespace(t)
		o := startOperator(t, ns, faults{})
		limit := int32(1)
		task := callOf(readyTool(t, ns, func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.BackoffLimit = &limit }), `{}`)
		create(t, task)
		first := awaitPod(t, task)
		play(t, first, ended(1, `{"attempt":1}`))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRetrying)
		return task, first, o
	}
	t.Run("the retry says something else", func(t *testing.T) {
		task, first, _ := retried(t)
		play(t, awaitRetry(t, task, first), ended(0, `{"attempt":2}`))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if raw := string(task.Status.Result.Inline.Raw); !strings.Contains(raw, `"attempt":2`) || strings.Contains(raw, `"attempt":1`) {
			t.Error(raw)
		}
	})
	t.Run("the retry says nothing", func(t *testing.T) {
		task, first, _ := retried(t)
		play(t, awaitRetry(t, task, first), ended(0, ""))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if raw := string(task.Status.Result.Inline.Raw); strings.Contains(raw, "attempt") {
			t.Error(raw)
		}
	})
	t.Run("the retry's Pod goes while it runs", func(t *testing.T) {
		task, first, _ := retried(t)
		retry := awaitRetry(t, task, first)
		play(t, retry, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		if err := k8s.Delete(t.Context(), retry); err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, task)
		if task.Status.Result != nil || task.Status.Reason != v1alpha1.ReasonEvicted {
			t.Errorf("%s/%s: %s, %+v", task.Status.State, task.Status.Reason, task.Status.Message, task.Status.Result)
		}
	})
	t.Run("the retry's Pod goes while the controller is away", func(t *testing.T) {
		task, first, o := retried(t)
		o.stop()
		retry := awaitRetry(t, task, first)
		play(t, retry, runningSince(metav1.Now()))
		if err := k8s.Delete(t.Context(), retry); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, "the Pod", retry)
		startOperator(t, task.Namespace, faults{})
		awaitEnd(t, task)
		if task.Status.Result != nil || task.Status.State != v1alpha1.TaskFailed {
			t.Errorf("%s/%s: %s, %s", task.Status.State, task.Status.Reason, task.Status.Message, task.Status.Result.Inline.Raw)
		}
	})
}
