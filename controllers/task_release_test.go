package controllers

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestReportsOfReplacedPodsAreForgotten(t *testing.T) {
	there := func(uids ...types.UID) (pods []corev1.Pod) {
		for _, uid := range uids {
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
		}
		return pods
	}
	for name, tc := range map[string]struct {
		known, reports, want []types.UID
		pods                 []corev1.Pod
	}{
		"the only one, gone":        {[]types.UID{"a"}, []types.UID{"a"}, []types.UID{"a"}, nil},
		"replaced and gone":         {[]types.UID{"a", "b"}, []types.UID{"a", "b"}, []types.UID{"b"}, there("b")},
		"replaced, still there":     {[]types.UID{"a", "b"}, []types.UID{"a", "b"}, []types.UID{"a", "b"}, there("a", "b")},
		"the last one, gone too":    {[]types.UID{"a", "b"}, []types.UID{"a", "b"}, []types.UID{"b"}, nil},
		"too many to be remembered": {[]types.UID{"c"}, []types.UID{"b", "c"}, []types.UID{"c"}, there("c")},
	} {
		t.Run(name, func(t *testing.T) {
			status := v1alpha1.McpTaskStatus{PodUIDs: tc.known}
			for _, uid := range tc.reports {
				status.Runtime = append(status.Runtime, v1alpha1.RuntimeReport{PodUID: uid})
			}
			forgetReplaced(&status, tc.pods)
			var got []types.UID
			for _, report := range status.Runtime {
				got = append(got, report.PodUID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// A task whose Pod is given back again and again keeps each question once, and the report of its newest Pod.
func TestATaskDoesNotGrowWithItsPods(t *testing.T) {
	task := &v1alpha1.McpTask{}
	for round := range 200 {
		uid := types.UID(fmt.Sprint(round))
		pods := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
		task.Status.PodUIDs = podUIDs(task.Status.PodUIDs, pods)
		task.Status.Runtime = append(task.Status.Runtime, v1alpha1.RuntimeReport{PodUID: uid, InputRequests: []v1alpha1.InputRequest{question("a-1"), question("b-1")}})
		collectQuestions(task, noon)
		forgetReplaced(&task.Status, pods)
		if len(task.Status.Runtime) != 1 || len(task.Status.InputRequests) != 2 || len(task.Status.PodUIDs) > maxPodUIDs || !slices.Contains(task.Status.PodUIDs, uid) {
			t.Fatalf("round %d: %d reports, %d questions, podUIDs %v", round, len(task.Status.Runtime), len(task.Status.InputRequests), task.Status.PodUIDs)
		}
	}
}
