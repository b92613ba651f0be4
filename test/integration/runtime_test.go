//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/jobs"
)

func withRuntime(s *v1alpha1.McpToolSpec) {
	s.Runtime = &v1alpha1.ToolRuntime{Enabled: true, Asks: []v1alpha1.AskMode{v1alpha1.AskModeForm}}
}

// runningWork is a task whose work runs in a Pod with the sidecar, and the Pod.
func runningWork(t *testing.T, change func(*v1alpha1.McpToolSpec)) (*v1alpha1.McpTask, *corev1.Pod) {
	t.Helper()
	task := calledTool(t, func(s *v1alpha1.McpToolSpec) {
		withRuntime(s)
		if change != nil {
			change(s)
		}
	})
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	eventually(t, "the task names its Pod", func() error {
		if err := read(t, task); err != nil {
			return err
		}
		if !slices.Contains(task.Status.PodUIDs, pod.UID) {
			return fmt.Errorf("podUIDs %v", task.Status.PodUIDs)
		}
		return nil
	})
	return task, pod
}

// tell stores what the Pod reported, as the bridge does.
func tell(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod, report string) {
	t.Helper()
	runtime := fmt.Sprintf(`[{"op":"add","path":"/status/runtime","value":[{"podUID":%q,%s}]}]`, pod.UID, report)
	if err := k8s.Status().Patch(t.Context(), task.DeepCopy(), jsonPatch(runtime)); err != nil {
		t.Fatal(err)
	}
}

// awaitEvents waits until the task has Events of that reason that say these words, one each.
func awaitEvents(t *testing.T, task *v1alpha1.McpTask, reason string, words ...string) {
	t.Helper()
	eventually(t, "Events of "+reason, func() error {
		var list eventsv1.EventList
		if err := k8s.List(t.Context(), &list, client.InNamespace(task.Namespace)); err != nil {
			return err
		}
		var notes []string
		for _, event := range list.Items {
			if event.Reason == reason && event.Regarding.UID == task.UID {
				notes = append(notes, event.Note)
			}
		}
		slices.Sort(notes)
		if !slices.Equal(notes, words) {
			return fmt.Errorf("%q", notes)
		}
		return nil
	})
}

func TestWorkAsksAndGoesOn(t *testing.T) {
	task, pod := runningWork(t, nil)
	tell(t, task, pod, `"sequence":1,"stateName":"checking","progress":{"current":"1","total":"3"},"inputRequests":[
		{"key":"k-1","method":"elicitation/create","params":{"mode":"form","message":"Approve 12 EUR?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean","default":null}}}}},
		{"key":"k-2","method":"elicitation/create","params":{"mode":"form","message":"Sure?"}}]`)
	awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
	if task.Status.Message != "the work asks: Approve 12 EUR?; Sure?" || task.Status.StateName != "checking" || task.Status.Progress == nil || task.Status.Progress.Total != "3" {
		t.Errorf("message %q, stateName %q, progress %+v", task.Status.Message, task.Status.StateName, task.Status.Progress)
	}
	if q := task.Status.InputRequests; len(q) != 2 || q[0].Key != "k-1" || q[0].Answered || q[0].RequestedAt == nil || !strings.Contains(string(q[0].Params.Raw), `"default":null`) {
		t.Errorf("questions %+v", q)
	}
	awaitEvents(t, task, "QuestionAsked", "the work asks k-1: Approve 12 EUR?", "the work asks k-2: Sure?")

	for i, patch := range []string{
		`[{"op":"add","path":"/spec/inputResponses","value":[{"key":"k-1","response":{"action":"accept","content":{"ok":true}},"answeredBy":{"principal":"ann","via":"mcp"}}]}]`,
		`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":"k-2","response":{"action":"decline"},"answeredBy":{"principal":"bob","via":"kubectl"}}}]`,
	} {
		if err := k8s.Patch(t.Context(), task.DeepCopy(), jsonPatch(patch)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the answer is seen", func() error {
			if err := read(t, task); err != nil {
				return err
			}
			if !task.Status.InputRequests[i].Answered {
				return fmt.Errorf("%s is not answered", task.Status.InputRequests[i].Key)
			}
			return nil
		})
	}
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	if task.Status.Message != "checking (1 of 3)" {
		t.Errorf("message %q", task.Status.Message)
	}
	awaitEvents(t, task, "QuestionAnswered", "ann answered k-1 through mcp (accept)", "bob answered k-2 through kubectl (decline)")

	tell(t, task, pod, `"sequence":2,"stateName":"done","progress":{"current":"3","total":"3"},"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"paid":null}},"size":9}`)
	play(t, pod, ended(0, "not this"))
	awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	if got := canonical(t, task.Status.Result.Inline.Raw); got != `{"content":[],"structuredContent":{"paid":null}}` || task.Status.Result.Size != 9 {
		t.Errorf("result %+v %s", task.Status.Result, got)
	}
	if task.Status.Runtime != nil || len(task.Status.InputRequests) != 2 || task.Status.StateName != "done" || task.Status.Progress.Current != "3" {
		t.Errorf("status %+v", task.Status)
	}
}

func TestWorkSaysHowItEnded(t *testing.T) {
	t.Run("failed", func(t *testing.T) {
		task, pod := runningWork(t, nil)
		tell(t, task, pod, `"sequence":1,"outcome":"failed","error":{"code":17,"message":"no stock","data":{"left":null}}`)
		play(t, pod, ended(1, ""))
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonToolFailed)
		if e := task.Status.Error; e.Code != 17 || e.Message != "no stock" || string(e.Data.Raw) != `{"left":null}` || task.Status.Result != nil || task.Status.Runtime != nil {
			t.Errorf("status %+v", task.Status)
		}
	})
	t.Run("result, then an exit code", func(t *testing.T) {
		task, pod := runningWork(t, nil)
		tell(t, task, pod, `"sequence":1,"outcome":"result","result":{"inline":{"content":[{"type":"text","text":"half"}]}}`)
		play(t, pod, ended(3, ""))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonToolError)
		for _, words := range []string{`"half"`, `"isError":true`, "exit code 3", `"mcptask.dev/exitCode":3`} {
			if raw := string(task.Status.Result.Inline.Raw); !strings.Contains(raw, words) {
				t.Errorf("%s lacks %s", raw, words)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		task, pod := runningWork(t, nil)
		tell(t, task, pod, `"sequence":1,"outcome":"cancelled"`)
		play(t, pod, ended(0, ""))
		awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
	})
	t.Run("cancelled while it asks", func(t *testing.T) {
		task, pod := runningWork(t, nil)
		tell(t, task, pod, `"sequence":1,"inputRequests":[{"key":"k-1","method":"elicitation/create","params":{"message":"Approve?"}}]`)
		awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
		if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"spec":{"cancel":{"requested":true}}}`)); err != nil {
			t.Fatal(err)
		}
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
	})
	t.Run("an attempt that failed has said nothing of its retry", func(t *testing.T) {
		task, pod := runningWork(t, func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.BackoffLimit = ptr.To[int32](1) })
		tell(t, task, pod, `"sequence":1,"stateName":"first","progress":{"current":"9"},"outcome":"failed","error":{"code":17,"message":"of the first attempt"}`)
		play(t, pod, ended(1, ""))
		retry := awaitNamedRetry(t, task, pod)
		if task.Status.Progress != nil || task.Status.StateName != "" {
			t.Errorf("the retry begins with stateName %q and progress %+v", task.Status.StateName, task.Status.Progress)
		}
		play(t, retry, ended(0, "second"))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if raw := string(task.Status.Result.Inline.Raw); !strings.Contains(raw, "second") {
			t.Error(raw)
		}
	})
}

func TestToolsNeedARuntimeToEnableIt(t *testing.T) {
	ns := newNamespace(t)
	runControllerWith(t, ns, jobs.Runtime{})
	tool := newTool(ns, "asks")
	withRuntime(&tool.Spec)
	create(t, tool)
	if ready := awaitReady(t, tool); ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "spec.runtime.enabled: Forbidden: the controller runs without --runtime-url") {
		t.Errorf("%s: %s", ready.Status, ready.Message)
	}
	plain := newTool(ns, "plain")
	create(t, plain)
	if ready := awaitReady(t, plain); ready.Status != metav1.ConditionTrue {
		t.Errorf("a tool without the runtime: %s", ready.Message)
	}
}

// awaitNamedRetry waits for another Pod of the task than the first, and until the task names it.
func awaitNamedRetry(t *testing.T, task *v1alpha1.McpTask, first *corev1.Pod) *corev1.Pod {
	t.Helper()
	retry := awaitRetry(t, task, first)
	eventually(t, "the second Pod is named", func() error {
		if err := read(t, task); err != nil {
			return err
		}
		if !slices.Contains(task.Status.PodUIDs, retry.UID) {
			return fmt.Errorf("podUIDs %v", task.Status.PodUIDs)
		}
		return nil
	})
	return retry
}
