//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
			if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"spec":{"ttl":"1s"}}`)); err != nil {
				t.Fatal(err)
			}
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

// ending is all that must be the same whatever happened to the controllers.
type ending struct {
	State                          v1alpha1.TaskState
	Reason, Message, Result, Error string
	// Jobs and Pods that ever were; Left are the objects that are still there beside the task.
	Jobs, Pods int
	Left       []string
	Events     []string
	Finalizers []string
	// Moved says what changed after the end.
	Moved []string
}

func cancelTask(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(fmt.Sprintf(`{"spec":{"cancel":{"requested":true,"by":"ann","at":%q}}}`, time.Now().UTC().Format(time.RFC3339)))); err != nil {
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

// readyTool makes a tool that is Ready without any controller.
func readyTool(t *testing.T, namespace string, change func(*v1alpha1.McpToolSpec)) *v1alpha1.McpTool {
	t.Helper()
	tool := newTool(namespace, "tool")
	tool.Spec.Retention = &v1alpha1.RetentionPolicy{Job: lasting(0)}
	if change != nil {
		change(&tool.Spec)
	}
	create(t, tool)
	before := tool.DeepCopy()
	meta.SetStatusCondition(&tool.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonToolReady, ObservedGeneration: tool.Generation})
	if err := k8s.Status().Patch(t.Context(), tool, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return tool
}

// live plays the scenario with controllers that have these faults, all running at once, and says how it ended and what the first of
// them wrote. A killed one is replaced by one that nothing happens to.
func (s scenario) live(t *testing.T, all ...faults) (ending, []string) {
	t.Helper()
	ns := newNamespace(t)
	seen := record(t, ns)
	tool := readyTool(t, ns, s.tool)
	var operators []*operator
	var replaced sync.WaitGroup
	over, cancel := context.WithCancel(t.Context())
	for _, f := range all {
		o := startOperator(t, ns, f)
		operators = append(operators, o)
		replaced.Go(func() {
			select {
			case <-over.Done():
				return
			case <-o.killed:
			}
			o.stop()
			next, err := newOperator(ns, faults{lag: f.lag})
			if err != nil {
				t.Errorf("no controller takes over: %v", err)
				return
			}
			t.Cleanup(next.stop)
		})
	}
	t.Cleanup(replaced.Wait)
	t.Cleanup(cancel)
	task := callOf(tool, `{}`)
	create(t, task)
	s.play(t, task)
	awaitEnd(t, task)
	awaitGone(t, "the Job", jobOf(task))
	var left []string
	eventually(t, "nothing is left but the task", func() error {
		left = nil
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.SecretList{}} {
			if err := k8s.List(t.Context(), list, client.InNamespace(ns)); err != nil {
				return err
			}
			if err := meta.EachListItem(list, func(o runtime.Object) error { left = append(left, fmt.Sprintf("%T", o)); return nil }); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	end := ending{State: task.Status.State, Reason: task.Status.Reason, Message: task.Status.Message, Finalizers: task.Finalizers, Left: left}
	for into, value := range map[*string]any{&end.Result: task.Status.Result, &end.Error: task.Status.Error} {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		*into = string(raw)
	}
	names := strings.NewReplacer(task.Name, "TASK", ns, "NAMESPACE")
	podName := regexp.MustCompile(`TASK-[a-z0-9]{5}`)
	// What was seen last before a Job went depends on how far the cache was.
	before := regexp.MustCompile(` \(before that: .*\)`)
	for _, words := range []*string{&end.Message, &end.Result, &end.Error} {
		*words = before.ReplaceAllString(podName.ReplaceAllString(names.Replace(*words), "POD"), "")
	}
	end.Events = awaitAllEvents(t, task)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	end.Jobs, end.Pods, end.Moved = len(seen.jobs), len(seen.pods), seen.moved()
	return end, operators[0].written()
}

func awaitEnd(t *testing.T, task *v1alpha1.McpTask) {
	t.Helper()
	eventually(t, "the task ends", func() error {
		if err := read(t, task); err != nil {
			return err
		}
		if !task.Status.State.Terminal() {
			return fmt.Errorf("it is %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
		}
		return nil
	})
}

// awaitAllEvents waits for the Events of the task's questions, of their answers and of its end, which only a success has not, and returns
// the reasons of all of its Events.
func awaitAllEvents(t *testing.T, task *v1alpha1.McpTask) (reasons []string) {
	t.Helper()
	var due []string
	for _, q := range task.Status.InputRequests {
		due = append(due, "QuestionAsked")
		if q.Answered {
			due = append(due, "QuestionAnswered")
		}
	}
	if task.Status.Reason != v1alpha1.ReasonSucceeded {
		due = append(due, task.Status.Reason)
	}
	eventually(t, "Events tell what happened", func() error {
		var list eventsv1.EventList
		if err := k8s.List(t.Context(), &list, client.InNamespace(task.Namespace)); err != nil {
			return err
		}
		reasons = nil
		for _, event := range list.Items {
			if event.Regarding.UID == task.UID {
				reasons = append(reasons, event.Reason)
			}
		}
		slices.Sort(reasons)
		missing := slices.Clone(due)
		for _, reason := range reasons {
			if i := slices.Index(missing, reason); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%v, without %v", reasons, missing)
		}
		return nil
	})
	return reasons
}

// atOnce runs the tests, so many at a time.
type atOnce struct {
	t     *testing.T
	slots chan struct{}
	wait  sync.WaitGroup
}

func (a *atOnce) run(name string, test func(*testing.T)) {
	a.wait.Go(func() {
		a.slots <- struct{}{}
		defer func() { <-a.slots }()
		a.t.Run(name, test)
	})
}

// undisturbed is the scenario's end when nothing goes wrong, and what is written for that.
func (s scenario) undisturbed(t *testing.T) (ending, []string) {
	t.Helper()
	end, writes := s.live(t, faults{})
	if end.Reason != s.reason || end.Jobs != 1 || len(end.Moved) > 0 || len(end.Left) > 0 || len(end.Finalizers) > 0 {
		t.Fatalf("the end is %+v", end)
	}
	return end, writes
}

// certain says whether every life of the scenario has this write, the nth of its kind. Some depend on what comes first: between the
// making of the Job and the end the status is written once where several things happen at a time, and a Pod whose Job is deleted may be gone
// before it is asked to end.
func (s scenario) certain(kind string, nth int, want ending) bool {
	switch kind {
	case "patch status v1alpha1.McpTask":
		return nth <= 2
	case "patch v1.Pod":
		return nth == 1 && s.endsPod
	case "create v1.Event":
		return nth <= len(want.Events)
	case "create v1.Job", "delete v1.Job":
		return nth == 1
	case "patch v1.Job":
		return nth <= 2 // it is suspended, and goes on
	}
	return false
}

// The controller is killed before each of its writes, and after each before it sees the answer. Another one takes over. The end is
// that of a life in which nothing happened. Where a life has no such write it is one more in which nothing happened; that is right only
// for writes that are not certain.
func TestTheControllerMayBeKilledAtEveryWrite(t *testing.T) {
	t.Parallel() // beside it others wait
	tests := &atOnce{t: t, slots: make(chan struct{}, 10)}
	var mu sync.Mutex
	lives, killed := 0, 0
	for name, s := range scenarios {
		tests.wait.Go(func() {
			var want ending
			var writes []string
			if !t.Run(name+"/undisturbed", func(t *testing.T) {
				want, writes = s.undisturbed(t)
				t.Logf("%d writes: %s", len(writes), strings.Join(writes, ", "))
			}) {
				return
			}
			for i, kind := range writes {
				nth := times(writes[:i+1], kind)
				for _, applied := range []bool{false, true} {
					when := map[bool]string{false: "before", true: "after"}[applied]
					tests.run(fmt.Sprintf("%s/%s %s %d", name, when, kind, nth), func(t *testing.T) {
						got, wrote := s.live(t, faults{killAt: nth, kind: kind, applied: applied})
						if !reflect.DeepEqual(got, want) {
							t.Errorf("got  %+v\nwant %+v\nthe first controller wrote %s", got, want, strings.Join(wrote, ", "))
						}
						reached := times(wrote, kind) == nth
						if !reached && s.certain(kind, nth, want) {
							t.Errorf("the controller lived on: it wrote %s", strings.Join(wrote, ", "))
						}
						mu.Lock()
						defer mu.Unlock()
						lives++
						if reached {
							killed++
						}
					})
				}
			}
		})
	}
	tests.wait.Wait()
	t.Logf("%d lives, the controller killed in %d", lives, killed)
}

// sameEnd plays every scenario undisturbed and with each of the faults.
func sameEnd(t *testing.T, kinds map[string][]faults) {
	t.Helper()
	tests := &atOnce{t: t, slots: make(chan struct{}, 10)}
	for name, s := range scenarios {
		tests.wait.Go(func() {
			var want ending
			if !t.Run(name+"/undisturbed", func(t *testing.T) { want, _ = s.undisturbed(t) }) {
				return
			}
			for kind, f := range kinds {
				tests.run(name+"/"+kind, func(t *testing.T) {
					if got, _ := s.live(t, f...); !reflect.DeepEqual(got, want) {
						t.Errorf("got  %+v\nwant %+v", got, want)
					}
				})
			}
		})
	}
	tests.wait.Wait()
}

func TestAStaleCacheChangesNothing(t *testing.T) {
	behind := func(resources ...string) []faults {
		f := faults{lag: map[string]time.Duration{}}
		for _, resource := range resources {
			f.lag[resource] = 1500 * time.Millisecond
		}
		return []faults{f}
	}
	sameEnd(t, map[string][]faults{
		"tasks are behind":         behind("mcptasks"),
		"Jobs are behind":          behind("jobs"),
		"Pods are behind":          behind("pods"),
		"Jobs and Pods are behind": behind("jobs", "pods"),
		"everything is behind":     behind("mcptasks", "jobs", "pods"),
	})
}

// A handover may overlap: the old leader has lost its Lease and does not know it yet.
func TestTwoControllersAtOnceChangeNothing(t *testing.T) {
	sameEnd(t, map[string][]faults{
		"both to the end":                   {{}, {}},
		"one is behind":                     {{}, {lag: map[string]time.Duration{"mcptasks": time.Second, "jobs": time.Second}}},
		"one is killed at its second write": {{killAt: 2}, {}},
	})
}
