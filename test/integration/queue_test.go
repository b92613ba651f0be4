//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// inQueue puts a tool's Jobs in a queue, suspended as by Kueue's webhook.
func inQueue(s *v1alpha1.McpToolSpec) {
	s.JobTemplate.Labels["kueue.x-k8s.io/queue-name"] = "gpu"
	s.JobTemplate.Spec.Suspend = ptr.To(true)
}

// queuedWork is a task whose Job waits in a queue.
func queuedWork(t *testing.T, change func(*v1alpha1.McpToolSpec)) *v1alpha1.McpTask {
	t.Helper()
	task := calledTool(t, func(s *v1alpha1.McpToolSpec) {
		inQueue(s)
		if change != nil {
			change(s)
		}
	})
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
	return task
}

// preemptedWork is such a task that was admitted, whose Pod runs, and that Kueue stops for another: the Pod is told to end.
func preemptedWork(t *testing.T, change func(*v1alpha1.McpToolSpec)) (*v1alpha1.McpTask, *corev1.Pod) {
	t.Helper()
	task := queuedWork(t, change)
	admit(t, task)
	pod := onNode(t, task, nil)
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	preempt(t, task, pod)
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
	return task, pod
}

// admit lets the Job go on where its queue has room, as Kueue does (sigs.k8s.io/kueue, pkg/controller/jobs/job, RunWithPodSetsInfo).
func admit(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	changeJob(t, task, func(job *batchv1.Job) {
		job.Spec.Suspend = ptr.To(false)
		job.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "gpu"}
		job.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	})
}

// preempt suspends the Job and takes back what admit has written, as Kueue does (Stop, ibid.), and waits until the Pod is told to end.
func preempt(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
	t.Helper()
	changeJob(t, task, func(job *batchv1.Job) {
		job.Spec.Suspend = ptr.To(true)
		job.Annotations["kueue.x-k8s.io/stopping"] = "true"
	})
	eventually(t, "the Job's clock is set back", func() error {
		job := jobOf(task)
		if err := read(t, job); err != nil {
			return err
		}
		job.Status.StartTime = nil
		return k8s.Status().Update(t.Context(), job)
	})
	changeJob(t, task, func(job *batchv1.Job) {
		job.Spec.Template.Spec.NodeSelector, job.Spec.Template.Spec.Tolerations = nil, nil
		delete(job.Annotations, "kueue.x-k8s.io/stopping")
	})
	eventually(t, "the Pod is told to end", func() error {
		if err := read(t, pod); err != nil || pod.DeletionTimestamp != nil {
			return err
		}
		return fmt.Errorf("it runs")
	})
}

func changeJob(t *testing.T, task *v1alpha1.McpTask, change func(*batchv1.Job)) {
	t.Helper()
	eventually(t, "the Job is written", func() error {
		job := jobOf(task)
		if err := read(t, job); err != nil {
			return err
		}
		change(job)
		return k8s.Update(t.Context(), job)
	})
}

func TestWorkThatAQueueStopsBeginsAnew(t *testing.T) {
	for name, code := range map[string]int32{"its Pod takes SIGTERM for its end": 0, "its Pod is killed": 137} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task, first := preemptedWork(t, nil)
			if !strings.Contains(task.Status.Message, "suspended after its work had begun, and waits in the queue gpu of Kueue") {
				t.Errorf("it says: %s", task.Status.Message)
			}
			play(t, first, ended(code, `{"answer":"of the first"}`))
			endOn(t, first, code)
			admit(t, task)
			second := newPod(t, task, []types.UID{first.UID})
			play(t, second, ended(0, `{"answer":"of the second"}`))
			awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
			if result := string(task.Status.Result.Inline.Raw); !strings.Contains(result, "of the second") || strings.Contains(result, "of the first") {
				t.Errorf("the result is %s", result)
			}
			if used := task.Status.Usage; used == nil || used.Attempts != 1 || len(task.Status.PodUIDs) != 2 {
				t.Errorf("usage %+v, podUIDs %v", used, task.Status.PodUIDs)
			}
		})
	}
	t.Run("a container beside it fails when it has exited with 0", func(t *testing.T) {
		t.Parallel()
		task, first := preemptedWork(t, func(s *v1alpha1.McpToolSpec) {
			pod := &s.JobTemplate.Spec.Template.Spec
			pod.Containers = append(pod.Containers, corev1.Container{Name: "beside", Image: "example.test/image"})
		})
		play(t, first, func(s *corev1.PodStatus) {
			ended(0, "")(s)
			s.Phase = corev1.PodFailed
			work := s.ContainerStatuses[0].State.Terminated
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: "beside", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 143, StartedAt: work.StartedAt, FinishedAt: work.FinishedAt}}})
		})
		endOn(t, first, 0)
		admit(t, task)
		play(t, newPod(t, task, []types.UID{first.UID}), ended(0, "done"))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if len(task.Status.PodUIDs) != 2 {
			t.Errorf("podUIDs %v", task.Status.PodUIDs)
		}
	})
	t.Run("a question is asked once, and answered while it waits", func(t *testing.T) {
		t.Parallel()
		task := queuedWork(t, withRuntime)
		admit(t, task)
		first := onNode(t, task, nil)
		tellNow(t, task, first, `"sequence":1,"inputRequests":[`+formQuestion("k-1", "Approve?")+`]`)
		awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
		preempt(t, task, first)
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
		// What it hands over because of SIGTERM is not the end of the work.
		tellNow(t, task, first, `"sequence":2,"inputRequests":[`+formQuestion("k-1", "Approve?")+`],"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"partial":true}}}`)
		answerTo(t, task, "k-1")
		endOn(t, first, 0)
		admit(t, task)
		second := onNode(t, task, []types.UID{first.UID})
		tellNow(t, task, second, `"sequence":1,"inputRequests":[`+formQuestion("k-1", "Approve?")+`],"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"whole":true}}}`)
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		play(t, second, ended(0, ""))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if result := string(task.Status.Result.Inline.Raw); !strings.Contains(result, "whole") || len(task.Status.InputRequests) != 1 {
			t.Errorf("the result is %s, questions %+v", result, task.Status.InputRequests)
		}
	})
	t.Run("what was handed over before it was stopped is not done again", func(t *testing.T) {
		t.Parallel()
		task := queuedWork(t, withRuntime)
		admit(t, task)
		pod := onNode(t, task, nil)
		tellNow(t, task, pod, `"sequence":1,"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"done":true}}}`)
		told := time.Now()
		eventually(t, "the second in which it was told is over", func() error { // Kubernetes says in whole seconds when a Job was suspended
			if time.Now().Truncate(time.Second).After(told) {
				return nil
			}
			return fmt.Errorf("it is not")
		})
		changeJob(t, task, func(job *batchv1.Job) { job.Spec.Suspend = ptr.To(true) })
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if !strings.Contains(string(task.Status.Result.Inline.Raw), `"done":true`) {
			t.Errorf("the result is %s", task.Status.Result.Inline.Raw)
		}
		awaitNoJob(t, task) // nor does it keep its place in the queue
	})
	t.Run("time in the queue does not count for its start, the time after does", func(t *testing.T) {
		t.Parallel()
		task, first := preemptedWork(t, func(s *v1alpha1.McpToolSpec) { s.StartDeadline = &metav1.Duration{Duration: 3 * time.Second} })
		admit(t, task) // while its Pod still ends
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonScheduling)
		if !strings.Contains(task.Status.Message, "which goes since the Job was suspended") {
			t.Errorf("it says: %s", task.Status.Message)
		}
		endOn(t, first, 143)
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonUnschedulable)
		if !strings.HasPrefix(task.Status.Message, "the work could not start again within 3s") {
			t.Errorf("it says: %s", task.Status.Message)
		}
		awaitNoJob(t, task)
	})
}

func TestATaskEndsWhileItWaitsInAQueueAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   v1alpha1.CancelMode
		ending bool
	}{
		"cancelled":                                 {v1alpha1.CancelModeCooperative, false},
		"cancelled while its Pod ends":              {v1alpha1.CancelModeCooperative, true},
		"cancelled, immediately":                    {v1alpha1.CancelModeImmediate, false},
		"cancelled while its Pod ends, immediately": {v1alpha1.CancelModeImmediate, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task, pod := preemptedWork(t, func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = tc.mode })
			if !tc.ending {
				endOn(t, pod, 143)
			}
			cancelTask(t, task)
			awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
			awaitNoJob(t, task)
		})
	}
	t.Run("its ttl passes", func(t *testing.T) {
		t.Parallel()
		task, pod := preemptedWork(t, nil)
		endOn(t, pod, 143)
		expireSoon(t, task)
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonExpired)
		awaitNoJob(t, task)
	})
}

// A webhook of the queue's that is away holds up the end of work that the Job may try again: that is said, and made up for.
func TestACancellationThatAWebhookHoldsUpSaysSo(t *testing.T) {
	t.Parallel()
	task := calledTool(t, func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.BackoffLimit = ptr.To[int32](2) })
	pod := awaitRunning(t, task)
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	away := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: task.Namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "away.mcptask.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: task.Namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
			}},
		}},
	}
	create(t, away)
	t.Cleanup(func() { _ = k8s.Delete(context.Background(), away) })
	eventually(t, "the webhook is asked", func() error {
		if err := k8s.Patch(t.Context(), jobOf(task), mergePatch(`{"metadata":{"annotations":{"note":"changed"}}}`), client.DryRunAll); err != nil {
			return nil
		}
		return fmt.Errorf("not yet")
	})
	cancelTask(t, task)
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
	if !strings.Contains(task.Status.Message, `the API server does not take that yet: Internal error occurred: failed calling webhook "away.mcptask.dev"`) {
		t.Errorf("it says: %s", task.Status.Message)
	}
	if err := k8s.Delete(t.Context(), away); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod is told to end", func() error {
		if err := read(t, pod); err != nil || pod.Spec.ActiveDeadlineSeconds != nil {
			return err
		}
		return fmt.Errorf("it runs")
	})
	play(t, pod, func(s *corev1.PodStatus) { ended(143, "")(s); s.Reason = "DeadlineExceeded" })
	awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
}
