package runtimeport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

const (
	// every is how often progress is written, for each task.
	every = 2 * time.Second
	// writeLimit bounds a write.
	writeLimit = 10 * time.Second
	// maxSeen and seenFor bound the memory of what was found unchanged.
	maxSeen = 8192
	seenFor = 10 * time.Minute
)

// writer stores the reports. Progress waits until the task's last report is two seconds old; what comes in the
// meantime, of whichever of its Pods, goes with it in one write, and takes along what is older of the same Pod.
type writer struct {
	draining context.Context
	store    *tasks.Store
	api      tasks.API
	metrics  *metrics
	seen     *cache.LRUExpireCache // types.UID → int64, the last sequence that was found unchanged
	writing  sync.WaitGroup

	mu     sync.Mutex
	queues map[identity]*queue
}

// identity is the task that the Pods proved to be of, and none of the same name that comes after it.
type identity struct {
	types.NamespacedName
	uid types.UID
}

// queue is what is to be written of one task.
type queue struct {
	pending map[types.UID]*submission
	// due is when to write; sooner is told when it has become earlier.
	due    time.Time
	sooner chan struct{}
}

// submission is the newest report of a Pod, and who waits for it to be stored.
type submission struct {
	report  *v1alpha1.RuntimeReport
	waiting []chan<- verdict
}

func newWriter(draining context.Context, store *tasks.Store, api tasks.API, metrics *metrics) *writer {
	return &writer{draining: draining, store: store, api: api, metrics: metrics,
		seen: cache.NewLRUExpireCache(maxSeen), queues: map[identity]*queue{}}
}

// submit returns once the report is stored, or why it is not. A report that was submitted is written also when its
// sender has left. The task is what this replica knows of it.
func (w *writer) submit(ctx context.Context, task *v1alpha1.McpTask, told *v1alpha1.RuntimeReport) verdict {
	if v := w.judge(task, told); v.outcome != written {
		return v
	}
	result := make(chan verdict, 1)
	w.enqueue(task, told, result)
	w.metrics.held.Inc()
	defer w.metrics.held.Dec()
	select {
	case v := <-result:
		return v
	case <-ctx.Done():
		return verdict{err: ctx.Err()}
	}
}

// judge decides about a report, and remembers what it found unchanged.
func (w *writer) judge(task *v1alpha1.McpTask, told *v1alpha1.RuntimeReport) verdict {
	var seen int64
	if known, ok := w.seen.Get(told.PodUID); ok {
		seen = known.(int64)
	}
	v := judge(task, told, seen)
	if v.outcome == unchanged && told.Sequence > seen {
		w.seen.Add(told.PodUID, told.Sequence, seenFor)
	}
	return v
}

func (w *writer) enqueue(task *v1alpha1.McpTask, told *v1alpha1.RuntimeReport, result chan<- verdict) {
	of := identity{types.NamespacedName{Namespace: task.Namespace, Name: task.Name}, task.UID}
	now := time.Now()
	due := now
	if !weighty(reportOf(task, told.PodUID), told) {
		due = dueAfter(task, now)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[of]
	if q == nil {
		q = &queue{pending: map[types.UID]*submission{}, sooner: make(chan struct{}, 1)}
		w.queues[of] = q
		w.writing.Go(func() { w.run(of, q) })
	}
	if len(q.pending) == 0 || due.Before(q.due) {
		q.due = due
		select {
		case q.sooner <- struct{}{}:
		default: // it has yet to look at the last change
		}
	}
	waits := q.pending[told.PodUID]
	if waits == nil {
		waits = &submission{report: told}
		q.pending[told.PodUID] = waits
	} else if told.Sequence > waits.report.Sequence {
		waits.report = told
	}
	waits.waiting = append(waits.waiting, result)
}

// dueAfter is when progress is to be written: two seconds after the last report of any of the task's Pods, through
// whichever replica, and in two seconds at the latest, whatever the clock of that replica says.
func dueAfter(task *v1alpha1.McpTask, now time.Time) time.Time {
	due := now
	for _, r := range task.Status.Runtime {
		if r.ReportedAt != nil && r.ReportedAt.Add(every).After(due) {
			due = r.ReportedAt.Add(every)
		}
	}
	if latest := now.Add(every); due.After(latest) {
		return latest
	}
	return due
}

// run writes what is pending, until there is no more.
func (w *writer) run(of identity, q *queue) {
	for {
		w.mu.Lock()
		if len(q.pending) == 0 {
			delete(w.queues, of)
			w.mu.Unlock()
			return
		}
		wait := time.Until(q.due)
		if wait <= 0 || w.draining.Err() != nil {
			batch := q.pending
			q.pending = map[types.UID]*submission{}
			w.mu.Unlock()
			w.write(of, batch)
			continue
		}
		w.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-q.sooner:
		case <-w.draining.Done():
		}
		timer.Stop()
	}
}

// write stores the reports of a batch and tells those who wait.
func (w *writer) write(of identity, batch map[types.UID]*submission) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.draining), writeLimit)
	defer cancel()
	var verdicts map[types.UID]verdict
	wrote := false
	task, err := w.api.Report(ctx, of.NamespacedName, func(stored *v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error) {
		if stored.UID != of.uid {
			return nil, &refusal{http.StatusNotFound, "unknown_task", "the task was deleted", ""}
		}
		if stored.Status.State.Terminal() {
			return nil, ended()
		}
		var news []v1alpha1.RuntimeReport
		news, verdicts = w.decide(stored, batch)
		wrote = len(news) > 0
		return news, nil
	})
	if (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && len(batch) > 1 { // one Pod's fault is not the others'
		for pod, s := range batch {
			w.write(of, map[types.UID]*submission{pod: s})
		}
		return
	}
	if err == nil {
		w.store.Remember(task)
		if wrote {
			w.metrics.writes.Inc()
		}
	}
	for pod, s := range batch {
		v := verdicts[pod]
		if err != nil {
			v = verdict{err: explain(of.NamespacedName, err)}
		}
		for _, waiting := range s.waiting {
			waiting <- v
		}
	}
}

// decide sorts out which reports of a batch are to be written into the task.
func (w *writer) decide(stored *v1alpha1.McpTask, batch map[types.UID]*submission) ([]v1alpha1.RuntimeReport, map[types.UID]verdict) {
	var news []v1alpha1.RuntimeReport
	verdicts := map[types.UID]verdict{}
	with := stored.DeepCopy()
	now := metav1.NowMicro()
	for pod, s := range batch {
		v := w.judge(with, s.report)
		if v.outcome == written {
			if err := fits(with, s.report); err != nil {
				v = verdict{err: err}
			} else {
				told := *s.report
				told.ReportedAt = &now
				news = append(news, told)
				with.Status.Runtime = append(others(with, pod), told) // the next one must fit beside it
			}
		}
		verdicts[pod] = v
	}
	return news, verdicts
}

// explain makes what the API server says fit for a Pod.
func explain(key types.NamespacedName, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return &refusal{http.StatusNotFound, "unknown_task", "the task was deleted", ""}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &refusal{http.StatusUnprocessableEntity, "invalid", "report: the API server does not take it: " + err.Error(), ""}
	case apierrors.IsRequestEntityTooLargeError(err):
		return &refusal{http.StatusRequestEntityTooLarge, "too_large", "the task would be larger than the API server takes", ""}
	}
	return fmt.Errorf("storing the reports of task %s: %w", key, err)
}
