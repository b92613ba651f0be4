package lastwords

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var task = types.NamespacedName{Namespace: "ns", Name: "task"}

func podOf(uid string, deleting bool, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + uid, UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase}}
	if deleting {
		now := metav1.Now()
		pod.DeletionTimestamp = &now
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return pod
}

func says(words string) Open {
	return func(context.Context, *corev1.Pod, string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(words)), nil
	}
}

func TestAPodIsRememberedAsItWasLastSeen(t *testing.T) {
	k := New(says(""))
	k.See(task, podOf("stays", false, corev1.PodRunning), false)
	k.See(task, podOf("finished", true, corev1.PodSucceeded), false)
	k.See(task, podOf("ends", true, corev1.PodRunning), false)
	ends := podOf("ends", true, corev1.PodFailed)
	asked := *ends.DeletionTimestamp
	ends.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
	k.See(task, ends, false)
	later, none := metav1.NewTime(asked.Add(3*time.Second)), int64(0)
	ends.DeletionTimestamp, ends.DeletionGracePeriodSeconds = &later, &none // by its node, at the end
	k.See(task, ends, true)
	k.See(task, podOf("vanishes", true, corev1.PodRunning), true)
	pods := k.Pods(task)
	if len(pods) != 2 || pods[0].UID != "ends" || pods[1].UID != "vanishes" {
		t.Fatalf("remembered: %+v", pods)
	}
	if state := pods[0].Status.ContainerStatuses[0].State.Terminated; state == nil || state.ExitCode != 143 {
		t.Errorf("%+v", pods[0].Status)
	}
	if since := pods[0].DeletionTimestamp.Sub(asked.Time).Abs(); since > time.Second {
		t.Errorf("it was asked to go %s later", since)
	}
	if state := pods[1].Status.ContainerStatuses[0].State; pods[1].Status.Phase != corev1.PodFailed || state.Running != nil || state.Terminated.Reason != unknown {
		t.Errorf("%+v", pods[1].Status)
	}
	k.Forget(task)
	if left := k.Pods(task); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestAPodThatIsDisownedIsNotRemembered(t *testing.T) {
	k := New(says(""))
	k.See(task, podOf("given", true, corev1.PodRunning), false)
	k.See(task, podOf("other", true, corev1.PodRunning), false)
	k.Disown(task, "given")
	k.See(task, podOf("given", true, corev1.PodRunning), true)
	if pods := k.Pods(task); len(pods) != 1 || pods[0].UID != "other" || !k.Disowned("given") || k.Disowned("other") {
		t.Errorf("remembered: %+v", pods)
	}
}

func TestAPodIsHeardToItsEnd(t *testing.T) {
	reader, writer := io.Pipe()
	k := New(func(context.Context, *corev1.Pod, string) (io.ReadCloser, error) { return reader, nil })
	pod := podOf("a", true, corev1.PodRunning)
	for range 2 {
		if !k.Follow(task, pod, "work") {
			t.Fatal("there is no room for one")
		}
	}
	go func() {
		fmt.Fprint(writer, "first\n")
		fmt.Fprint(writer, "last words\n")
		writer.Close()
	}()
	if log, ok := k.Log("a", "work"); !ok || string(log.Tail) != "first\nlast words\n" || log.Size != 17 {
		t.Errorf("%v %q", ok, log.Tail)
	}
	if _, ok := k.Log("a", "mesh"); ok {
		t.Error("another container was heard")
	}
	k.Forget(task)
	if _, ok := k.Log("a", "work"); ok {
		t.Error("it is not forgotten")
	}
}

func TestALogThatCannotBeOpenedIsNotEmptyButUnheard(t *testing.T) {
	k := New(func(context.Context, *corev1.Pod, string) (io.ReadCloser, error) {
		return nil, errors.New("no such node")
	})
	k.Follow(task, podOf("a", true, corev1.PodRunning), "work")
	if _, ok := k.Log("a", "work"); ok {
		t.Error("something was heard")
	}
}

func TestOnlySoManyAreFollowed(t *testing.T) {
	k := New(says("x"))
	for i := range maxFollowed {
		if !k.Follow(task, podOf(fmt.Sprint(i), true, corev1.PodRunning), "work") {
			t.Fatalf("no room for number %d", i)
		}
	}
	if k.Follow(task, podOf("more", true, corev1.PodRunning), "work") {
		t.Error("there is no bound")
	}
	k.Forget(task)
	if !k.Follow(task, podOf("more", true, corev1.PodRunning), "work") {
		t.Error("what is forgotten still takes room")
	}
}
