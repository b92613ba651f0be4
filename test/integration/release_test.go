//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// waitingWork is a task of a tool that gives its Pod back, whose work asks, and that Pod. stop ends the operator.
func waitingWork(t *testing.T, change func(*v1alpha1.McpToolSpec)) (task *v1alpha1.McpTask, pod *corev1.Pod, stop func()) {
	t.Helper()
	ns := newNamespace(t)
	stop = runController(t, ns)
	tool := newTool(ns, "tool")
	withRuntime(&tool.Spec)
	tool.Spec.Runtime.WhileWaiting = v1alpha1.WhileWaitingRelease
	if change != nil {
		change(&tool.Spec)
	}
	create(t, tool)
	if ready := awaitReady(t, tool); ready.Status != metav1.ConditionTrue {
		t.Fatalf("the tool is not ready: %s", ready.Message)
	}
	task = callOf(tool, `{"n":3}`)
	create(t, task)
	pod = onNode(t, task, nil)
	tellNow(t, task, pod, `"sequence":1,"stateName":"awaiting_approval","inputRequests":[`+formQuestion("k-1", "Approve?")+`]`)
	awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
	return task, pod, stop
}

func formQuestion(key, message string) string {
	return fmt.Sprintf(`{"key":%q,"method":"elicitation/create","params":{"mode":"form","message":%q}}`, key, message)
}

// onNode waits for a Pod of the task that is not one of those before, and lets it run on a node, where it ends only when its node
// says so.
func onNode(t *testing.T, task *v1alpha1.McpTask, before []types.UID) *corev1.Pod {
	t.Helper()
	pod := newPod(t, task, before)
	bind(t, pod)
	play(t, pod, runningSince(metav1.Now()))
	return pod
}

// newPod waits for a Pod that the task names and that is not one of those before.
func newPod(t *testing.T, task *v1alpha1.McpTask, before []types.UID) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "the task names a new Pod", func() error {
		var pods corev1.PodList
		if err := k8s.List(t.Context(), &pods, client.InNamespace(task.Namespace), client.MatchingLabels{v1alpha1.LabelTask: task.Name}); err != nil {
			return err
		}
		if err := read(t, task); err != nil {
			return err
		}
		for i := range pods.Items {
			if uid := pods.Items[i].UID; !slices.Contains(before, uid) && slices.Contains(task.Status.PodUIDs, uid) {
				pod = &pods.Items[i]
				return nil
			}
		}
		return fmt.Errorf("podUIDs %v", task.Status.PodUIDs)
	})
	return pod
}

// bind puts the Pod on a node of its own that does not exist: nobody runs it, and it stays until that node would be done with it. Pods of
// missing nodes are removed 40 seconds or more after the first Pod of that node was seen.
func bind(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	bindTo(t, pod, "of-"+pod.Name)
}

// bindTo puts the Pod on that node, as the scheduler does.
func bindTo(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	if err := k8s.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}); err != nil {
		t.Fatal(err)
	}
}

// tellNow stores what the Pod reported, beside the reports of others, as the bridge does.
func tellNow(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod, report string) {
	t.Helper()
	eventually(t, "the report is stored", func() error {
		if err := read(t, task); err != nil {
			return err
		}
		op, path := "add", "/status/runtime"
		value := fmt.Sprintf(`[{"podUID":%q,"reportedAt":%q,%s}]`, pod.UID, time.Now().UTC().Format(metav1.RFC3339Micro), report)
		if i := slices.IndexFunc(task.Status.Runtime, func(r v1alpha1.RuntimeReport) bool { return r.PodUID == pod.UID }); i >= 0 {
			op, path, value = "replace", fmt.Sprintf("/status/runtime/%d", i), value[1:len(value)-1]
		} else if len(task.Status.Runtime) > 0 {
			path, value = "/status/runtime/-", value[1:len(value)-1]
		}
		return k8s.Status().Patch(t.Context(), task.DeepCopy(), jsonPatch(fmt.Sprintf(
			`[{"op":"replace","path":"/metadata/resourceVersion","value":%q},{"op":%q,"path":%q,"value":%s}]`, task.ResourceVersion, op, path, value)))
	})
}

// awaitReleased waits until the Job is suspended for the Pod, the Pod is told to end, and the task says so.
func awaitReleased(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
	eventually(t, "the Pod is given back", func() error {
		for _, o := range []client.Object{job, task, pod} {
			if err := read(t, o); err != nil {
				return err
			}
		}
		if !*job.Spec.Suspend || pod.DeletionTimestamp == nil || !strings.HasPrefix(task.Status.Message, "no Pod is kept until an answer comes: ") {
			return fmt.Errorf("suspended %v, deleted at %v, %s", *job.Spec.Suspend, pod.DeletionTimestamp, task.Status.Message)
		}
		return nil
	})
	if mark := job.Annotations[v1alpha1.AnnotationReleased]; !strings.Contains(mark, string(pod.UID)) {
		t.Errorf("the Job is marked %q", mark)
	}
	if task.Status.State != v1alpha1.TaskInputRequired || task.Status.Reason != v1alpha1.ReasonAwaitingInput {
		t.Errorf("the task is %s/%s", task.Status.State, task.Status.Reason)
	}
	return job
}

// endOn ends a Pod that was told to end, as its node does: it writes how, and removes it.
func endOn(t *testing.T, pod *corev1.Pod, code int32) {
	t.Helper()
	play(t, pod, ended(code, ""))
	if err := k8s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// noPod makes sure that for a while the task has no Pod and is what it was.
func noPod(t *testing.T, task *v1alpha1.McpTask, during time.Duration) {
	t.Helper()
	eventually(t, "the Pod has gone", func() error {
		var pods corev1.PodList
		if err := k8s.List(t.Context(), &pods, client.InNamespace(task.Namespace)); err != nil || len(pods.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d Pods", len(pods.Items))
	})
	if err := read(t, task); err != nil {
		t.Fatal(err)
	}
	version := task.ResourceVersion
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var pods corev1.PodList
		if err := k8s.List(t.Context(), &pods, client.InNamespace(task.Namespace)); err != nil || len(pods.Items) > 0 {
			t.Fatalf("%d Pods, %v", len(pods.Items), err)
		}
		if err := read(t, task); err != nil || task.ResourceVersion != version || task.Status.State != v1alpha1.TaskInputRequired {
			t.Fatalf("%v; the task is written, and is %s/%s: %s", err, task.Status.State, task.Status.Reason, task.Status.Message)
		}
	}
}

func answerTo(t *testing.T, task *v1alpha1.McpTask, key string) {
	t.Helper()
	if err := read(t, task); err != nil {
		t.Fatal(err)
	}
	path, value := "/spec/inputResponses", fmt.Sprintf(`[{"key":%q,"response":{"action":"accept","content":{}}}]`, key)
	if len(task.Spec.InputResponses) > 0 {
		path, value = path+"/-", value[1:len(value)-1]
	}
	if err := k8s.Patch(t.Context(), task.DeepCopy(), jsonPatch(fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}]`, path, value))); err != nil {
		t.Fatal(err)
	}
}

func TestNoPodIsKeptWhileAPersonThinks(t *testing.T) {
	t.Run("it comes back with the answer, whatever was restarted", func(t *testing.T) {
		t.Parallel()
		task, first, stop := waitingWork(t, func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.ActiveDeadlineSeconds = ptr.To[int64](20)
			s.StartDeadline = &metav1.Duration{Duration: 10 * time.Second}
		})
		awaitReleased(t, task, first)
		endOn(t, first, 0) // it takes SIGTERM for its end; the Job must not
		noPod(t, task, 10*time.Second)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
		if err := read(t, job); err != nil || job.Status.Succeeded+job.Status.Failed > 0 {
			t.Fatalf("the Job counts the Pod that was given back: %+v, %v", job.Status, err)
		}
		// Before Kubernetes 1.36 the time of the first start stays on a suspended Job, and fails it when it goes on.
		if err := k8s.Status().Patch(t.Context(), job, mergePatch(fmt.Sprintf(`{"status":{"startTime":%q}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))); err != nil {
			t.Fatal(err)
		}
		stop()
		answerTo(t, task, "k-1")
		runController(t, task.Namespace)
		second := onNode(t, task, []types.UID{first.UID})

		// It begins anew: what it asked before is answered, and it asks two more questions.
		tellNow(t, task, second, `"sequence":1,"inputRequests":[`+formQuestion("k-1", "Approve?")+`,`+formQuestion("k-2", "Which?")+`,`+formQuestion("k-3", "Sure?")+`]`)
		awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
		awaitReleased(t, task, second)
		answerTo(t, task, "k-3") // while it ends
		endOn(t, second, 143)
		third := onNode(t, task, []types.UID{first.UID, second.UID})
		answerTo(t, task, "k-2")
		tellNow(t, task, third, `"sequence":1,"inputRequests":[`+formQuestion("k-1", "Approve?")+`,`+formQuestion("k-2", "Which?")+`,`+formQuestion("k-3", "Sure?")+`],"outcome":"result","result":{"inline":{"content":[]}}`)
		eventually(t, "the reports of the Pods before are forgotten", func() error {
			if err := read(t, task); err != nil {
				return err
			}
			if len(task.Status.Runtime) != 1 {
				return fmt.Errorf("%d reports", len(task.Status.Runtime))
			}
			return nil
		})
		play(t, third, ended(0, ""))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if len(task.Status.InputRequests) != 3 || len(task.Status.PodUIDs) != 3 {
			t.Errorf("%d questions, podUIDs %v", len(task.Status.InputRequests), task.Status.PodUIDs)
		}
		if err := read(t, job); err != nil || job.Status.Failed > 0 || !strings.Contains(job.Annotations[v1alpha1.AnnotationReleased], `"resumed":true`) {
			t.Errorf("the Job is %+v, %v, %v", job.Status, job.Annotations, err)
		}
		const givenBack, goesOn = "the work only waits: its Pod is given back until an answer comes", "an answer has come: the work gets a Pod again"
		// Of each time that the Pod was given back, and came back, people hear.
		awaitEvents(t, task, "PodReleased", givenBack, givenBack)
		awaitEvents(t, task, "PodResumed", goesOn, goesOn)
		awaitEvents(t, task, "QuestionAsked", "the work asks k-1: Approve?", "the work asks k-2: Which?", "the work asks k-3: Sure?")
	})
	t.Run("a cancelled one is cancelled at once and gets no Pod", func(t *testing.T) {
		t.Parallel()
		task, pod, _ := waitingWork(t, nil)
		awaitReleased(t, task, pod)
		if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"spec":{"cancel":{"requested":true}}}`)); err != nil {
			t.Fatal(err)
		}
		awaitState(t, task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled) // although the Pod still ends
		awaitNoJob(t, task)
	})
	t.Run("a result that is handed over while the Pod ends stands", func(t *testing.T) {
		t.Parallel()
		task, pod, _ := waitingWork(t, nil)
		awaitReleased(t, task, pod)
		tellNow(t, task, pod, `"sequence":2,"inputRequests":[`+formQuestion("k-1", "Approve?")+`],"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"done":true}}}`)
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		if !strings.Contains(string(task.Status.Result.Inline.Raw), `"done":true`) {
			t.Errorf("the result is %s", task.Status.Result.Inline.Raw)
		}
		awaitNoJob(t, task)
	})
	t.Run("a Job that a queue has suspended is left to the queue", func(t *testing.T) {
		t.Parallel()
		task, pod, _ := waitingWork(t, nil)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
		if err := k8s.Patch(t.Context(), job, mergePatch(`{"spec":{"suspend":true},"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"gpu"}}}`)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the Pod is told to end", func() error {
			if err := read(t, pod); err != nil || pod.DeletionTimestamp != nil {
				return err
			}
			return fmt.Errorf("it runs")
		})
		endOn(t, pod, 143)
		answerTo(t, task, "k-1")
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
		eventually(t, "the answer is seen", func() error {
			if err := read(t, task); err != nil || task.Status.InputRequests[0].Answered {
				return err
			}
			return fmt.Errorf("not yet")
		})
		if err := read(t, job); err != nil || !*job.Spec.Suspend {
			t.Errorf("suspended %v, %v", *job.Spec.Suspend, err)
		}
	})
}

func awaitNoJob(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	eventually(t, "the Job is removed", func() error {
		if err := read(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("%v", err)
		}
		return nil
	})
}
