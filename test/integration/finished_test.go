//go:build integration

package integration

import (
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Of many finished tasks those go that have expired, and the others stay: etcd holds what retention says and no more. FINISHED_TASKS=10000
// has more of them.
func TestOfManyFinishedTasksThoseGoThatHaveExpired(t *testing.T) {
	ns := newNamespace(t)
	n := number(t, "FINISHED_TASKS", 300)
	var mu sync.Mutex
	var kept []string
	outcomes := []v1alpha1.TaskState{v1alpha1.TaskCompleted, v1alpha1.TaskFailed, v1alpha1.TaskCancelled}
	storeEnded(t, ns, n, 1000, 1000, func(i int, task *v1alpha1.McpTask) {
		task.Status.State = outcomes[i%3]
		if i%3 == 1 { // failed tasks are kept for longer
			mu.Lock()
			kept = append(kept, task.Name)
			mu.Unlock()
			return
		}
		task.Status.ExpiresAt = &metav1.Time{Time: time.Now().Add(-time.Second)}
	})
	controller := &ledger{part: "controller"}
	runControllerOn(t, controller.config(), ns, nil)
	began := time.Now()
	slices.Sort(kept)
	stored := func() (names []string) {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("McpTaskList"))
		for { // page by page, as everybody should who lists tasks
			if err := k8s.List(t.Context(), &list, client.InNamespace(ns), client.Limit(500), client.Continue(list.Continue)); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			if list.Continue == "" {
				slices.Sort(names)
				return names
			}
		}
	}
	patience := 30*time.Second + time.Duration(n)*100*time.Millisecond
	var left []string
	for left = stored(); len(left) > len(kept) && time.Since(began) < patience; left = stored() {
		past(t, time.Now(), 500*time.Millisecond)
	}
	if !slices.Equal(left, kept) {
		t.Errorf("%d tasks are left, want the %d that have not expired", len(left), len(kept))
	}
	took := time.Since(began)
	written := controller.since(nil)
	t.Logf("%d of %d tasks were deleted in %s; written:\n%s", n-len(left), n, took, all(written))
	if got := written["controller DELETE mcptasks"]; got != n-len(kept) || len(written) != 1 {
		t.Errorf("written:\n%s", all(written))
	}
}
