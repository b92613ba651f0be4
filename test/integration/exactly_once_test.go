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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

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
	result := map[string]bool{} // the Secrets of the task's result, which are whole
	if r := task.Status.Result; r != nil && r.SecretRef != nil {
		storedResult(t, task)
		for _, part := range parts(t, task)[:r.SecretRef.Parts] {
			result[part.Name] = true
		}
	}
	var left []string
	eventually(t, "nothing is left but the task and its result", func() error {
		left = nil
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.SecretList{}} {
			if err := k8s.List(t.Context(), list, client.InNamespace(ns)); err != nil {
				return err
			}
			if err := meta.EachListItem(list, func(o runtime.Object) error {
				if !result[o.(client.Object).GetName()] {
					left = append(left, fmt.Sprintf("%T", o))
				}
				return nil
			}); err != nil {
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
	podName := regexp.MustCompile(`TASK-[a-z0-9]{5}\b`)
	secretName := regexp.MustCompile(`TASK-[a-f0-9]{16}-`)
	// What was seen last before a Job went depends on how far the cache was.
	before := regexp.MustCompile(` \(before that: .*\)`)
	for _, words := range []*string{&end.Message, &end.Result, &end.Error} {
		*words = secretName.ReplaceAllString(podName.ReplaceAllString(names.Replace(*words), "POD"), "SECRET-")
		*words = before.ReplaceAllString(*words, "")
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
	case "create v1.Secret":
		return true
	case "patch v1.Job":
		return nth <= 2 // it is suspended, and goes on
	}
	return false
}

// old is how far the cache is behind what the controller itself has written of these.
func old(resources ...string) map[string]time.Duration {
	lag := map[string]time.Duration{}
	for _, resource := range resources {
		lag[resource] = 1500 * time.Millisecond
	}
	return lag
}

// The controller is killed before each of its writes, and after each before it sees the answer, its cache up to date or not. Another one
// takes over. The end is that of a life in which nothing happened. Where a life has no such write it is one more in which nothing happened; that is right only
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
				for when, f := range map[string]faults{"before": {}, "after": {applied: true}, "with an old cache, after": {applied: true, lag: old("mcptasks", "jobs", "pods")}} {
					f.killAt, f.kind = nth, kind
					tests.run(fmt.Sprintf("%s/%s %s %d", name, when, kind, nth), func(t *testing.T) {
						got, wrote := s.live(t, f)
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
	behind := func(resources ...string) []faults { return []faults{{lag: old(resources...)}} }
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
