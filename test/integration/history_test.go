//go:build integration

package integration

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// history is what a namespace has seen.
type history struct {
	mu         sync.Mutex
	jobs, pods map[types.UID]bool
	tasks      []v1alpha1.McpTask
}

// record watches a namespace until the test ends.
func record(t *testing.T, namespace string) *history {
	t.Helper()
	h := &history{jobs: map[types.UID]bool{}, pods: map[types.UID]bool{}}
	watcher, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &v1alpha1.McpTaskList{}} {
		w, err := watcher.Watch(t.Context(), list, client.InNamespace(namespace))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		go func() {
			for event := range w.ResultChan() {
				h.mu.Lock()
				switch o := event.Object.(type) {
				case *batchv1.Job:
					h.jobs[o.UID] = true
				case *corev1.Pod:
					h.pods[o.UID] = true
				case *v1alpha1.McpTask:
					h.tasks = append(h.tasks, *o)
				}
				h.mu.Unlock()
			}
		}()
	}
	return h
}

// moved are the changes of a task after its end.
func (h *history) moved() []string {
	var last *v1alpha1.McpTask
	var changes []string
	for i := range h.tasks {
		now := &h.tasks[i]
		if last != nil && last.Status.State.Terminal() && !reflect.DeepEqual(last.Status, now.Status) {
			changes = append(changes, fmt.Sprintf("%s/%s at %v became %s/%s at %v", last.Status.State, last.Status.Reason, last.Status.LastUpdatedAt,
				now.Status.State, now.Status.Reason, now.Status.LastUpdatedAt))
		}
		last = now
	}
	return changes
}
