//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// scenario is one life of a task.
type scenario struct {
	tool func(*v1alpha1.McpToolSpec)
	// play is what the node and people do, one after another, waiting for each other.
	play func(*testing.T, *v1alpha1.McpTask)
	// reason is how it ends when nothing goes wrong.
	reason string
	// endsPod says that the Pod ends because it is asked to.
	endsPod bool
}

var scenarios = map[string]scenario{
	"quick success": {
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			play(t, awaitPod(t, task), ended(0, `{"answer":42}`))
		},
		reason: v1alpha1.ReasonSucceeded,
	},
	"large result": {
		tool: func(s *v1alpha1.McpToolSpec) { s.Result.MaxBytes = 900_000 },
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			play(t, awaitPod(t, task), ended(0, strings.Repeat("0123456789\n", 60_000)))
		},
		reason: v1alpha1.ReasonSucceeded,
	},
	"beside a mesh that stays": {
		tool: withMesh,
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			pod := awaitPod(t, task)
			play(t, pod, besideMesh(0))
			awaitDeadline(t, pod, 1)
			play(t, pod, ended(0, ""))
		},
		reason: v1alpha1.ReasonSucceeded, endsPod: true,
	},
	"tool error with a retry": {
		tool: func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.BackoffLimit = ptr.To[int32](1) },
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			first := awaitPod(t, task)
			play(t, first, ended(1, "of the first attempt"))
			play(t, awaitRetry(t, task, first), ended(3, "of the second attempt"))
		},
		reason: v1alpha1.ReasonToolError,
	},
	"cancelled while running": {
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			pod := awaitRunning(t, task)
			cancelTask(t, task)
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
			awaitDeadline(t, pod, 1)
			play(t, pod, func(s *corev1.PodStatus) { ended(143, "partial")(s); s.Reason = "DeadlineExceeded" })
		},
		reason: v1alpha1.ReasonCancelled, endsPod: true,
	},
	"cancelled before its start": {
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			awaitPod(t, task)
			cancelTask(t, task)
		},
		reason: v1alpha1.ReasonCancelled,
	},
	"cancelled at once": {
		tool: func(s *v1alpha1.McpToolSpec) { s.Execution.CancelMode = v1alpha1.CancelModeImmediate },
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			pod := awaitRunning(t, task)
			cancelTask(t, task)
			awaitDeadline(t, pod, 1)
			play(t, pod, func(s *corev1.PodStatus) { ended(143, "partial")(s); s.Reason = "DeadlineExceeded" })
		},
		reason: v1alpha1.ReasonCancelled, endsPod: true,
	},
	"cannot start": {
		tool:   func(s *v1alpha1.McpToolSpec) { s.StartDeadline = lasting(6 * time.Second) },
		play:   func(t *testing.T, task *v1alpha1.McpTask) { awaitPod(t, task) },
		reason: v1alpha1.ReasonUnschedulable,
	},
	"expiring": {
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			pod := awaitRunning(t, task)
			expireSoon(t, task)
			awaitDeadline(t, pod, 1)
			play(t, pod, func(s *corev1.PodStatus) { ended(143, "partial")(s); s.Reason = "DeadlineExceeded" })
		},
		reason: v1alpha1.ReasonExpired, endsPod: true,
	},
	"asking": {
		tool: withRuntime,
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			pod := awaitPod(t, task)
			play(t, pod, runningSince(metav1.Now()))
			eventually(t, "the task names its Pod", func() error {
				if err := read(t, task); err != nil || !slices.Contains(task.Status.PodUIDs, pod.UID) {
					return fmt.Errorf("podUIDs %v, %v", task.Status.PodUIDs, err)
				}
				return nil
			})
			tell(t, task, pod, `"sequence":1,"inputRequests":[{"key":"k-1","method":"elicitation/create","params":{"message":"Approve?"}}]`)
			awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
			answer := `[{"op":"add","path":"/spec/inputResponses","value":[{"key":"k-1","response":{"action":"accept"},"answeredBy":{"principal":"ann","via":"mcp"}}]}]`
			if err := k8s.Patch(t.Context(), task.DeepCopy(), jsonPatch(answer)); err != nil {
				t.Fatal(err)
			}
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
			tell(t, task, pod, `"sequence":2,"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"paid":true}},"size":13}`)
			play(t, pod, ended(0, ""))
		},
		reason: v1alpha1.ReasonSucceeded,
	},
	"given back while a person thinks": {
		tool: func(s *v1alpha1.McpToolSpec) {
			withRuntime(s)
			s.Runtime.WhileWaiting = v1alpha1.WhileWaitingRelease
		},
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			first := onNode(t, task, nil)
			question := formQuestion("k-1", "Approve?")
			tellNow(t, task, first, `"sequence":1,"inputRequests":[`+question+`]`)
			awaitReleased(t, task, first)
			endOn(t, first, 143)
			answerTo(t, task, "k-1")
			second := onNode(t, task, []types.UID{first.UID})
			tellNow(t, task, second, `"sequence":1,"inputRequests":[`+question+`],"outcome":"result","result":{"inline":{"content":[],"structuredContent":{"paid":true}},"size":13}`)
			play(t, second, ended(0, ""))
		},
		reason: v1alpha1.ReasonSucceeded,
	},
	"stopped by its queue for another": {
		tool: inQueue,
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
			admit(t, task)
			first := onNode(t, task, nil)
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
			preempt(t, task, first)
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
			play(t, first, ended(0, "of the first"))
			endOn(t, first, 0)
			admit(t, task)
			play(t, newPod(t, task, []types.UID{first.UID}), ended(0, "of the second"))
		},
		reason: v1alpha1.ReasonSucceeded,
	},
	"Job deleted by hand": {
		play: func(t *testing.T, task *v1alpha1.McpTask) {
			awaitRunning(t, task)
			if err := k8s.Delete(t.Context(), jobOf(task), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				t.Fatal(err)
			}
		},
		reason: v1alpha1.ReasonJobDeleted,
	},
}

func cancelTask(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(fmt.Sprintf(`{"spec":{"cancel":{"requested":true,"by":"ann","at":%q}}}`, time.Now().UTC().Format(time.RFC3339)))); err != nil {
		t.Fatal(err)
	}
}

// expireSoon leaves the task a second to live.
func expireSoon(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"spec":{"ttl":"1s"}}`)); err != nil {
		t.Fatal(err)
	}
}

// awaitRunning plays a Pod that runs until the task says so.
func awaitRunning(t *testing.T, task *v1alpha1.McpTask) *corev1.Pod {
	t.Helper()
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	return pod
}

func awaitDeadline(t *testing.T, pod *corev1.Pod, want int64) {
	t.Helper()
	eventually(t, "the Pod is asked to end", func() error {
		if err := read(t, pod); err != nil {
			return err
		}
		if d := pod.Spec.ActiveDeadlineSeconds; d == nil || *d != want {
			return fmt.Errorf("its activeDeadlineSeconds is %v", d)
		}
		return nil
	})
}

// awaitRetry waits for another Pod of the task than the first.
func awaitRetry(t *testing.T, task *v1alpha1.McpTask, first *corev1.Pod) *corev1.Pod {
	t.Helper()
	var retry *corev1.Pod
	eventually(t, "a second attempt", func() error {
		var pods corev1.PodList
		if err := k8s.List(t.Context(), &pods, client.InNamespace(task.Namespace), client.MatchingLabels{v1alpha1.LabelTask: task.Name}); err != nil {
			return err
		}
		for i := range pods.Items {
			if pods.Items[i].UID != first.UID {
				retry = &pods.Items[i]
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	return retry
}
