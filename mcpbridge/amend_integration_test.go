//go:build integration

package mcpbridge_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// newTask stores a task that nobody owns.
func newTask(t *testing.T, namespace string) types.NamespacedName {
	t.Helper()
	task := &v1alpha1.McpTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.NewTaskID()},
		Spec:       v1alpha1.McpTaskSpec{ToolName: "crawl"},
	}
	if err := k8s.Create(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return client.ObjectKeyFromObject(task)
}

func stored(t *testing.T, key types.NamespacedName) *v1alpha1.McpTask {
	t.Helper()
	task := &v1alpha1.McpTask{}
	if err := k8s.Get(t.Context(), key, task); err != nil {
		t.Fatal(err)
	}
	return task
}

func accepted(key string) v1alpha1.InputResponse {
	return v1alpha1.InputResponse{Key: key, Response: runtime.RawExtension{Raw: []byte(`{"action":"accept","content":{"n":1}}`)}}
}

func TestNoReportAndNoAnswerIsLostAmongOthers(t *testing.T) {
	key := newTask(t, newNamespace(t))
	api := tasks.Client{Client: k8s}
	const writers, rounds = 3, 4
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for round := range rounds {
				pod := types.UID(fmt.Sprintf("pod-%d", writer))
				if _, err := api.Report(t.Context(), key, func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error) {
					return []v1alpha1.RuntimeReport{{PodUID: pod, Sequence: int64(round + 1)}}, nil
				}); err != nil {
					t.Errorf("report of %s: %v", pod, err)
				}
				answer := accepted(fmt.Sprintf("question-%d-%d", writer, round))
				if _, err := api.Answer(t.Context(), key, func(*v1alpha1.McpTask) []v1alpha1.InputResponse {
					return []v1alpha1.InputResponse{answer}
				}); err != nil {
					t.Errorf("answer %s: %v", answer.Key, err)
				}
			}
		})
	}
	writing.Wait()
	task := stored(t, key)
	if len(task.Status.Runtime) != writers || len(task.Spec.InputResponses) != writers*rounds {
		t.Fatalf("stored are %d reports and %d answers", len(task.Status.Runtime), len(task.Spec.InputResponses))
	}
	for _, report := range task.Status.Runtime {
		if report.Sequence != rounds {
			t.Errorf("the last report of %s is number %d", report.PodUID, report.Sequence)
		}
	}
}

func TestAConflictIsDecidedAgain(t *testing.T) {
	key := newTask(t, newNamespace(t))
	api := tasks.Client{Client: k8s}
	finish(t, key.Namespace, key.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: "it runs"})
	asked := 0
	task, err := api.Answer(t.Context(), key, func(seen *v1alpha1.McpTask) []v1alpha1.InputResponse {
		asked++
		if asked == 1 { // somebody else comes first
			if _, err := api.Answer(t.Context(), key, func(*v1alpha1.McpTask) []v1alpha1.InputResponse {
				return []v1alpha1.InputResponse{accepted("a")}
			}); err != nil {
				t.Error(err)
			}
		} else if len(seen.Spec.InputResponses) != 1 {
			t.Errorf("the second look does not show the other's answer: %+v", seen.Spec.InputResponses)
		}
		late := accepted("a")
		late.Response.Raw = []byte(`{"action":"decline"}`)
		return []v1alpha1.InputResponse{late, accepted("b")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if answers := task.Spec.InputResponses; asked != 2 || len(answers) != 2 || string(answers[0].Response.Raw) != string(accepted("a").Response.Raw) || answers[1].Key != "b" {
		t.Errorf("asked %d times; stored is %+v", asked, answers)
	}
	if task.Status.Message != "it runs" {
		t.Errorf("the status is %+v", task.Status)
	}

	asked = 0
	if _, err := api.Report(t.Context(), key, func(seen *v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error) {
		asked++
		if asked == 1 {
			finish(t, key.Namespace, key.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: "it still runs"})
		}
		return []v1alpha1.RuntimeReport{{PodUID: "p", Sequence: 1}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if status := stored(t, key).Status; asked != 2 || status.Message != "it still runs" || len(status.Runtime) != 1 {
		t.Errorf("asked %d times; stored is %+v", asked, status)
	}
}

func TestNothingToSayIsNotWritten(t *testing.T) {
	key := newTask(t, newNamespace(t))
	api := tasks.Client{Client: k8s}
	before := stored(t, key).ResourceVersion
	refused := errors.New("refused")
	if _, err := api.Report(t.Context(), key, func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if _, err := api.Report(t.Context(), key, func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	if task, err := api.Answer(t.Context(), key, func(*v1alpha1.McpTask) []v1alpha1.InputResponse { return nil }); err != nil || task.Name != key.Name {
		t.Errorf("got %+v, %v", task, err)
	}
	if after := stored(t, key).ResourceVersion; after != before {
		t.Errorf("version %s has become %s", before, after)
	}
	missing := types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.NewTaskID()}
	if _, err := api.Answer(t.Context(), missing, func(*v1alpha1.McpTask) []v1alpha1.InputResponse { return nil }); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestReportsOfForgottenPodsMakeRoom(t *testing.T) {
	key := newTask(t, newNamespace(t))
	var status v1alpha1.McpTaskStatus
	for i := range 64 {
		pod := types.UID(fmt.Sprintf("pod-%d", i))
		status.Runtime = append(status.Runtime, v1alpha1.RuntimeReport{PodUID: pod, Sequence: 1})
		if i > 0 {
			status.PodUIDs = append(status.PodUIDs, pod)
		}
	}
	status.PodUIDs = append(status.PodUIDs, "pod-64")
	finish(t, key.Namespace, key.Name, status)
	if _, err := (tasks.Client{Client: k8s}).Report(t.Context(), key, func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error) {
		return []v1alpha1.RuntimeReport{{PodUID: "pod-64", Sequence: 1}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if kept := stored(t, key).Status.Runtime; len(kept) != 64 || kept[0].PodUID != "pod-1" || kept[63].PodUID != "pod-64" {
		t.Errorf("kept are %d reports, from %s to %s", len(kept), kept[0].PodUID, kept[len(kept)-1].PodUID)
	}
}
