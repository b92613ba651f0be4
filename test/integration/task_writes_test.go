//go:build integration

package integration

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// pulling is a Pod that has a node, which fetches its image.
func pulling(s *corev1.PodStatus) {
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
}

// past waits until so much time has gone by since something.
func past(t *testing.T, since time.Time, much time.Duration) {
	t.Helper()
	eventually(t, "time passes", func() error {
		if left := much - time.Since(since); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
}

// What a task costs the API server, from the call to the Job's deletion: everything that the bridge and the controller write.
func TestWritesOfATask(t *testing.T) {
	ns := newNamespace(t)
	bridges, controller := &ledger{part: "bridge"}, &ledger{part: "controller"}
	runControllerOn(t, controller.config(), ns, nil)
	b := runBridge(t, bridges.config(), ns)
	tool := newTool(ns, "tool")
	tool.Spec.Retention = &v1alpha1.RetentionPolicy{Job: lasting(0)}
	create(t, tool)
	awaitReady(t, tool)

	const most = 4 // writes of the task itself
	for _, tc := range []struct {
		name string
		work func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod)
		end  string
		// statuses are how often the status is written, events how many Events tell of it.
		statuses, events int
	}{
		{"a task that takes a while", func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, runningSince(metav1.Now()))
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
			play(t, pod, ended(0, "done"))
		}, v1alpha1.ReasonSucceeded, 3, 0},
		{"a quick one", func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, ended(0, "done"))
		}, v1alpha1.ReasonSucceeded, 2, 0},
		{"one that is slow to start", func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, pulling)
			past(t, pod.CreationTimestamp.Time, 5*time.Second)
			play(t, pod, runningSince(metav1.Now()))
			awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
			play(t, pod, ended(0, "done"))
		}, v1alpha1.ReasonSucceeded, 3, 0},
		{"one whose program fails", func(t *testing.T, task *v1alpha1.McpTask, pod *corev1.Pod) {
			play(t, pod, ended(3, "no such host"))
		}, v1alpha1.ReasonToolError, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fromBridge, fromController, before := bridges.since(nil), controller.since(nil), served(t)
			task := b.call(t, tool)
			pod := awaitPod(t, task)
			tc.work(t, task, pod)
			awaitGone(t, "the Job", jobOf(task))
			if err := read(t, task); err != nil || task.Status.Reason != tc.end {
				t.Errorf("%v: it ended %s: %s", err, task.Status.Reason, task.Status.Message)
			}
			eventually(t, "the Events are there", func() error {
				if n := controller.since(fromController)["controller POST events"]; n < tc.events {
					return fmt.Errorf("%d", n)
				}
				return nil
			})
			theirs, ours := controller.since(fromController), bridges.since(fromBridge)
			counted := more(served(t), before)
			t.Logf("written:\n%s\nthe API server counted:\n%s", all(ours, theirs), all(counted))
			for what, want := range map[string]int{
				"bridge POST mcptasks": 1, "controller PATCH mcptasks/status": tc.statuses,
				"controller POST jobs": 1, "controller DELETE jobs": 1, "controller POST events": tc.events,
			} {
				if got := ours[what] + theirs[what]; got != want {
					t.Errorf("%d× %s, want %d", got, what, want)
				}
				delete(ours, what)
				delete(theirs, what)
			}
			if rest := all(ours, theirs); rest != "" {
				t.Errorf("written besides:\n%s", rest)
			}
			total := 0
			for _, n := range counted {
				total += n
			}
			if total != 1+tc.statuses || total > most {
				t.Errorf("the API server counted\n%s", all(counted))
			}
		})
	}
}

// reconciles is how often tasks have been looked at, by all operators of this process.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == "mcptask" {
					sum += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// Nothing is written of tasks that change nothing, however often they are looked at: one that runs, one that waits for an answer, one
// that cannot start and one that has ended.
func TestAnIdleTaskIsNotWritten(t *testing.T) {
	ns := newNamespace(t)
	bridges, controller := &ledger{part: "bridge"}, &ledger{part: "controller"}
	runControllerOn(t, controller.config(), ns, func(o *controllerOptions) {
		o.cache.SyncPeriod = ptr.To(500 * time.Millisecond) // everything is looked at anew all the time
	})
	b := runBridge(t, bridges.config(), ns)
	tool := newTool(ns, "tool")
	withRuntime(&tool.Spec)
	create(t, tool)
	awaitReady(t, tool)
	plain := newTool(ns, "plain")
	create(t, plain)
	awaitReady(t, plain)

	running := b.call(t, plain)
	play(t, awaitPod(t, running), runningSince(metav1.Now()))
	awaitState(t, running, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	waiting := callOf(tool, `{}`)
	create(t, waiting)
	pod := awaitPod(t, waiting)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, waiting, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	tell(t, waiting, pod, `"sequence":1,"inputRequests":[{"key":"k-1","method":"elicitation/create","params":{"message":"Approve?"}}]`)
	awaitState(t, waiting, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
	done := b.call(t, plain)
	play(t, awaitPod(t, done), ended(0, "done"))
	awaitState(t, done, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
	stuck := b.call(t, plain)
	play(t, awaitPod(t, stuck), func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
	})
	eventually(t, "it is told why the task does not start", func() error {
		if err := read(t, stuck); err != nil {
			return err
		}
		if !strings.Contains(stuck.Status.Message, "0/3 nodes") {
			return errors.New(stuck.Status.Message)
		}
		return nil
	})

	const often = 100
	eventually(t, "the Events are told", func() error { // those of the question and of the task that does not start
		if n := controller.since(nil)["controller POST events"]; n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	fromBridge, fromController, before, looked := bridges.since(nil), controller.since(nil), served(t), reconciles(t)
	eventually(t, "the tasks are looked at many times", func() error {
		if n := reconciles(t) - looked; n < often {
			return fmt.Errorf("%v times", n)
		}
		return nil
	})
	if written := all(bridges.since(fromBridge), controller.since(fromController)); written != "" {
		t.Errorf("written without a change:\n%s", written)
	}
	if counted := all(more(served(t), before)); counted != "" {
		t.Errorf("the API server counted\n%s", counted)
	}
}

// A thousand reports of progress are written once in two seconds, by the bridge and by the controller.
func TestAStormOfProgressIsFewWrites(t *testing.T) {
	ns := newNamespace(t)
	bridges, controller := &ledger{part: "bridge"}, &ledger{part: "controller"}
	runControllerOn(t, controller.config(), ns, nil)
	b := runBridge(t, bridges.config(), ns)
	tool := newTool(ns, "tool")
	tool.Spec.Runtime = &v1alpha1.ToolRuntime{Enabled: true}
	create(t, tool)
	awaitReady(t, tool)
	task := b.call(t, tool)
	pod := awaitPod(t, task)
	play(t, pod, runningSince(metav1.Now()))
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	storm := newStorm(t, b, task, pod)
	if status := storm.tell(t, 1); status != http.StatusOK { // from here on the bridge knows the Pod
		t.Fatalf("the first report: HTTP %d", status)
	}

	const reports = 1000
	fromBridge, fromController, began := bridges.since(nil), controller.since(nil), time.Now()
	var senders sync.WaitGroup
	var next, taken atomic.Int64
	next.Store(1)
	for range 200 { // a Pod may ask so often and no more: most are sent away
		senders.Go(func() {
			for n := next.Add(1); n <= reports; n = next.Add(1) {
				if storm.tell(t, n) == http.StatusOK {
					taken.Add(1)
				}
			}
		})
	}
	senders.Wait()
	eventually(t, "the last report is stored", func() error {
		if status := storm.tell(t, reports+1); status != http.StatusOK {
			return fmt.Errorf("HTTP %d", status)
		}
		if err := read(t, task); err != nil {
			return err
		}
		if task.Status.Progress == nil || task.Status.Progress.Current != strconv.Itoa(reports+1) {
			return fmt.Errorf("progress %+v", task.Status.Progress)
		}
		return nil
	})
	most := int(time.Since(began)/(2*time.Second)) + 2
	theirs, ours := bridges.since(fromBridge), controller.since(fromController)
	t.Logf("%d of %d reports were taken in %s; written:\n%s", taken.Load(), reports, time.Since(began), all(theirs, ours))
	for _, writes := range []int{theirs["bridge PATCH mcptasks/status"], ours["controller PATCH mcptasks/status"]} {
		if writes == 0 || writes > most {
			t.Errorf("written %d times, at most %d were due", writes, most)
		}
	}
	if taken.Load() < 20 {
		t.Errorf("only %d reports were taken", taken.Load())
	}
}

// storm is a Pod that has much to tell.
type storm struct {
	url, token string
}

func newStorm(t *testing.T, b *bridge, task *v1alpha1.McpTask, pod *corev1.Pod) *storm {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	token, err := clientset.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{jobs.Audience(task)},
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &storm{url: fmt.Sprintf("%s/v1/namespaces/%s/tasks/%s/report", b.runtime, task.Namespace, task.Name), token: token.Status.Token}
}

// tell reports progress and returns the HTTP status; 429 is an answer to many at once.
func (s *storm) tell(t *testing.T, n int64) int {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url, strings.NewReader(fmt.Sprintf(`{"sequence":%d,"progress":{"current":"%d"}}`, n, n)))
	if err != nil {
		t.Error(err)
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}
