//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Nothing is played here but the kubelet and its silence: what follows the cluster does, with its own controllers.
func TestWorkWhoseNodeIsLostSaysSo(t *testing.T) {
	t.Parallel()                         // it waits, and does little
	newNode(t, newNamespace(t)+"-other") // where no node at all is ready the cluster evicts nobody
	tests := &atOnce{t: t, slots: make(chan struct{}, 4)}
	tests.run("its node is silent, and the cluster evicts its Pod", func(t *testing.T) {
		w := workOnNode(t, evictedSoon)
		w.silence(t)
		w.awaitDoubt(t)
		w.awaitEviction(t)
		w.awaitLost(t, "the node "+w.node.Name+" has not been ready since ", "Kubelet stopped posting node status", "what became of the work in the Pod "+w.pod.Name+" is not known")
		if early := w.pod.DeletionTimestamp.Add(10 * time.Second).Sub(w.task.Status.FinishedAt.Time); early > 0 {
			t.Errorf("it was given up %s before the Pod had been away for 10 s", early)
		}
		w.comesBack(t)
	})
	tests.run("its node is silent, and its Job waits at its time limit", func(t *testing.T) {
		w := workOnNode(t, func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.ActiveDeadlineSeconds = ptr.To[int64](20) })
		w.silence(t)
		w.awaitDoubt(t)
		w.awaitLost(t, "the node "+w.node.Name+" has not been ready since ", "what became of the work in the Pod "+w.pod.Name+" is not known", "the Job's time limit of 20 s has passed")
		if job := w.job(t); !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailureTarget }) {
			t.Errorf("the Job has not announced its end: %+v", job.Status)
		}
		w.comesBack(t)
	})
	tests.run("its node is silent, and its Job may try again", func(t *testing.T) {
		w := workOnNode(t, func(s *v1alpha1.McpToolSpec) {
			evictedSoon(s)
			s.JobTemplate.Spec.BackoffLimit = ptr.To[int32](1)
		})
		w.silence(t)
		w.awaitEviction(t)
		awaitState(t, w.task, v1alpha1.TaskWorking, v1alpha1.ReasonRetrying)
		if words := w.task.Status.Message; !strings.HasPrefix(words, "the node "+w.node.Name+" has not been ready since ") || !strings.HasSuffix(words, "the Job may try again when the node is back or removed") {
			t.Errorf("message %q", words)
		}
		endOn(t, w.pod, 137)
		play(t, awaitRetry(t, w.task, w.pod), ended(0, "done"))
		awaitState(t, w.task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		w.staysEnded(t)
	})
	tests.run("its node is removed, and the cluster collects its Pod", func(t *testing.T) {
		w := workOnNode(t, nil)
		if err := k8s.Delete(t.Context(), w.node); err != nil {
			t.Fatal(err)
		}
		within(t, 3*time.Minute, "the task ends", func() error { return w.ended(t) })
		if want := fmt.Sprintf("the node %s of the Pod %s is gone: PodGC: node no longer exists", w.node.Name, w.pod.Name); w.task.Status.Reason != v1alpha1.ReasonNodeLost || w.task.Status.Message != want {
			t.Errorf("%s/%s: %s", w.task.Status.State, w.task.Status.Reason, w.task.Status.Message)
		}
		w.staysEnded(t)
	})
	tests.wait.Wait()
}

// Whatever a task was doing when its Pod was taken from a silent node: it comes to an end soon after the Pod's grace, and nobody has to touch it.
func TestATaskOnASilentNodeEndsByItself(t *testing.T) {
	t.Parallel()
	newNode(t, newNamespace(t)+"-other")
	tests := &atOnce{t: t, slots: make(chan struct{}, 2)}
	tests.run("its end was asked for", func(t *testing.T) {
		w := workOnNode(t, evictedSoon)
		w.silence(t)
		cancelTask(t, w.task)
		awaitState(t, w.task, v1alpha1.TaskWorking, v1alpha1.ReasonCancelling)
		w.awaitEviction(t)
		awaitState(t, w.task, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled)
		if words := w.task.Status.Message; !strings.HasPrefix(words, "cancelled by ann; the node "+w.node.Name+" has not been ready since ") {
			t.Errorf("message %q", words)
		}
		w.comesBack(t)
	})
	tests.run("its work had ended, and a container beside it had not", func(t *testing.T) {
		w := workOnNode(t, func(s *v1alpha1.McpToolSpec) { withMesh(s); evictedSoon(s) })
		play(t, w.pod, func(s *corev1.PodStatus) {
			ended(0, "done")(s)
			s.Phase = corev1.PodRunning
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
		})
		w.silence(t)
		w.awaitEviction(t)
		within(t, 30*time.Second, "the task ends", func() error { return w.ended(t) })
		if w.task.Status.State != v1alpha1.TaskCompleted {
			t.Errorf("its work ended with exit code 0, and the task is %s/%s: %s", w.task.Status.State, w.task.Status.Reason, w.task.Status.Message)
		}
	})
	tests.wait.Wait()
}

// newNode makes a node that says it is ready, in a zone of its own: what the cluster does to one does not wait for what it does to another.
func newNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: name}}}
	create(t, node)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := k8s.Delete(context.Background(), node); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete the node %s: %v", node.Name, err)
		}
	})
	saysOfNode(t, node, corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"})
	return node
}

func saysOfNode(t *testing.T, node *corev1.Node, ready corev1.NodeCondition) {
	t.Helper()
	ready.Type, ready.LastHeartbeatTime, ready.LastTransitionTime = corev1.NodeReady, metav1.Now(), metav1.Now()
	eventually(t, "the node's state is written", func() error {
		if err := read(t, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{ready}
		return k8s.Status().Update(t.Context(), node)
	})
}

// nodeWork is a task whose Pod runs on a node.
type nodeWork struct {
	task *v1alpha1.McpTask
	pod  *corev1.Pod
	node *corev1.Node
	seen *history
}

func workOnNode(t *testing.T, change func(*v1alpha1.McpToolSpec)) *nodeWork {
	t.Helper()
	ns := newNamespace(t)
	w := &nodeWork{seen: record(t, ns), node: newNode(t, ns+"-node")}
	startOperator(t, ns, faults{})
	w.task = callOf(readyTool(t, ns, func(s *v1alpha1.McpToolSpec) {
		s.JobTemplate.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
		if change != nil {
			change(s)
		}
	}), `{}`)
	create(t, w.task)
	w.pod = awaitPod(t, w.task)
	bindTo(t, w.pod, w.node.Name)
	play(t, w.pod, func(s *corev1.PodStatus) { runningSince(metav1.Now())(s); sayReady(s, corev1.ConditionTrue) })
	awaitState(t, w.task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	return w
}

// evictedSoon lets the cluster evict the Pod from a silent node after two seconds. It is five minutes where nobody says so.
func evictedSoon(s *v1alpha1.McpToolSpec) {
	s.JobTemplate.Spec.Template.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](2)}}
}

// sayReady says of the Pod, whose containers are, whether it is ready.
func sayReady(s *corev1.PodStatus, ready corev1.ConditionStatus) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady || c.Type == corev1.ContainersReady })
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready}, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// silence is what the node lifecycle controller writes, of the node and of its Pods, when a kubelet has said nothing for a while. Here it
// is written at once.
func (w *nodeWork) silence(t *testing.T) {
	t.Helper()
	saysOfNode(t, w.node, corev1.NodeCondition{Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."})
	play(t, w.pod, func(s *corev1.PodStatus) { sayReady(s, corev1.ConditionFalse) })
}

// awaitDoubt waits until the task, which works on as far as anybody knows, names the node.
func (w *nodeWork) awaitDoubt(t *testing.T) {
	t.Helper()
	eventually(t, "the task says that its node is silent", func() error {
		if err := read(t, w.task); err != nil {
			return err
		}
		words := w.task.Status.Message
		if w.task.Status.State != v1alpha1.TaskWorking || !strings.Contains(words, "the node "+w.node.Name+" has not been ready since ") || !strings.Contains(words, "whether the tool still runs there is not known") {
			return fmt.Errorf("it is %s/%s: %s", w.task.Status.State, w.task.Status.Reason, words)
		}
		return nil
	})
}

// awaitEviction waits until the cluster has marked and deleted the Pod. It stays, because its node does not end it.
func (w *nodeWork) awaitEviction(t *testing.T) {
	t.Helper()
	within(t, time.Minute, "the cluster evicts the Pod", func() error {
		if err := read(t, w.pod); err != nil {
			return err
		}
		if c := podCondition(w.pod, corev1.DisruptionTarget); c == nil || c.Reason != "DeletionByTaintManager" || w.pod.DeletionTimestamp == nil {
			return fmt.Errorf("deleted at %v, %+v", w.pod.DeletionTimestamp, c)
		}
		return nil
	})
}

func (w *nodeWork) ended(t *testing.T) error {
	if err := read(t, w.task); err != nil {
		return err
	}
	if !w.task.Status.State.Terminal() {
		return fmt.Errorf("it is %s/%s: %s", w.task.Status.State, w.task.Status.Reason, w.task.Status.Message)
	}
	return nil
}

func (w *nodeWork) job(t *testing.T) *batchv1.Job {
	t.Helper()
	job := jobOf(w.task)
	if err := read(t, job); err != nil {
		t.Fatal(err)
	}
	return job
}

// awaitLost waits for the end of a task whose Job does not come to one.
func (w *nodeWork) awaitLost(t *testing.T, words ...string) {
	t.Helper()
	within(t, time.Minute, "the task ends", func() error { return w.ended(t) })
	status := w.task.Status
	if status.State != v1alpha1.TaskFailed || status.Reason != v1alpha1.ReasonNodeLost || status.Error == nil || status.Error.Code != -32603 || status.Error.Message != status.Message {
		t.Errorf("%s/%s: %s, error %+v", status.State, status.Reason, status.Message, status.Error)
	}
	for _, some := range words {
		if !strings.Contains(status.Message, some) {
			t.Errorf("%q lacks %q", status.Message, some)
		}
	}
	for _, c := range w.job(t).Status.Conditions {
		if c.Type == batchv1.JobFailed || c.Type == batchv1.JobComplete {
			t.Errorf("the Job has ended: %+v", c)
		}
	}
}

// comesBack plays the node that is there again, and has ended the Pod: the Job comes to its end then, and goes.
func (w *nodeWork) comesBack(t *testing.T) {
	t.Helper()
	endOn(t, w.pod, 137)
	w.staysEnded(t)
}

// staysEnded waits until nothing is left of the work, and makes sure that the task is as it was told.
func (w *nodeWork) staysEnded(t *testing.T) {
	t.Helper()
	staysAsItEnded(t, w.task, w.seen)
	awaitGone(t, "the Pod", w.pod)
}
