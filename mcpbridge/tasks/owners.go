package tasks

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// owners knows which tasks are whose, and tells those who follow all tasks of an owner which of them changed.
type owners struct {
	census *census

	mu    sync.Mutex
	of    map[types.NamespacedName]owner
	tasks map[owner]map[types.NamespacedName]struct{}
	feeds map[owner]map[*Feed]struct{}
}

// owner is a caller in a namespace.
type owner struct {
	namespace string
	identity  v1alpha1.Identity
}

func newOwners() *owners {
	return &owners{census: newCensus(), of: map[types.NamespacedName]owner{}, tasks: map[owner]map[types.NamespacedName]struct{}{}, feeds: map[owner]map[*Feed]struct{}{}}
}

// note keeps whose a task is. A task without an owner is nobody's.
func (o *owners) note(task *v1alpha1.McpTask) {
	o.census.note(task)
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	o.mu.Lock()
	defer o.mu.Unlock()
	if task.Spec.Owner == nil {
		o.remove(key)
		return
	}
	now := owner{task.Namespace, *task.Spec.Owner}
	if before, known := o.of[key]; known && before != now { // deleted, and made anew by somebody else
		o.remove(key)
	}
	o.of[key] = now
	if o.tasks[now] == nil {
		o.tasks[now] = map[types.NamespacedName]struct{}{}
	}
	o.tasks[now][key] = struct{}{}
	o.mark(now, key)
}

// forget drops a task that is gone.
func (o *owners) forget(key types.NamespacedName) {
	o.census.forget(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if whose, known := o.of[key]; known {
		o.mark(whose, key)
	}
	o.remove(key)
}

func (o *owners) remove(key types.NamespacedName) {
	whose, known := o.of[key]
	if !known {
		return
	}
	delete(o.of, key)
	if delete(o.tasks[whose], key); len(o.tasks[whose]) == 0 {
		delete(o.tasks, whose)
	}
}

func (o *owners) mark(whose owner, key types.NamespacedName) {
	for feed := range o.feeds[whose] {
		feed.mark(key)
	}
}

// keys are the tasks of an owner, in no order.
func (o *owners) keys(whose owner) []types.NamespacedName {
	o.mu.Lock()
	defer o.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(o.tasks[whose]))
	for key := range o.tasks[whose] {
		keys = append(keys, key)
	}
	return keys
}

// Feed follows all tasks of one owner in one namespace, those included that are yet to come.
type Feed struct {
	changed chan struct{}
	stop    func()

	mu     sync.Mutex
	marked map[types.NamespacedName]struct{}
}

// Changed has a value when Take has something to return.
func (f *Feed) Changed() <-chan struct{} { return f.changed }

// Take returns the tasks that have changed since it was last called, gone ones included.
func (f *Feed) Take() []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []types.NamespacedName
	for key := range f.marked {
		keys = append(keys, key)
	}
	clear(f.marked)
	return keys
}

// Stop ends the feed.
func (f *Feed) Stop() { f.stop() }

func (f *Feed) mark(key types.NamespacedName) {
	f.mu.Lock()
	f.marked[key] = struct{}{}
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default: // the reader has yet to look at the last change
	}
}

// Owned returns the tasks of an owner, in no order.
func (s *Store) Owned(namespace string, identity v1alpha1.Identity) []*v1alpha1.McpTask {
	keys := s.owners.keys(owner{namespace, identity})
	owned := make([]*v1alpha1.McpTask, 0, len(keys))
	for _, key := range keys {
		if task, ok := s.Get(key); ok {
			owned = append(owned, task)
		}
	}
	return owned
}

// Follow tells of changes of an owner's tasks from now on. The feed must be stopped.
func (s *Store) Follow(namespace string, identity v1alpha1.Identity) *Feed {
	whose := owner{namespace, identity}
	feed := &Feed{changed: make(chan struct{}, 1), marked: map[types.NamespacedName]struct{}{}}
	feed.stop = func() {
		s.owners.mu.Lock()
		defer s.owners.mu.Unlock()
		if delete(s.owners.feeds[whose], feed); len(s.owners.feeds[whose]) == 0 {
			delete(s.owners.feeds, whose)
		}
	}
	s.owners.mu.Lock()
	defer s.owners.mu.Unlock()
	if s.owners.feeds[whose] == nil {
		s.owners.feeds[whose] = map[*Feed]struct{}{}
	}
	s.owners.feeds[whose][feed] = struct{}{}
	return feed
}
