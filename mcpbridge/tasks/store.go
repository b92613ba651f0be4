// Package tasks is what a replica knows about tasks: its watch's view, what it wrote or read itself and the watch has
// not shown yet, and who waits for changes.
package tasks

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

const (
	// settled is how long an object still counts once the watch has shown a newer one of its namespace, and not that one: a new list
	// comes in any order.
	settled = 30 * time.Second
	// longest is how long an object counts at most that the watch has not shown: it may have been deleted while the watch was broken.
	longest = 15 * time.Minute
)

// The watch reads every task, because any caller's handle must resolve on every replica; get settles a cache miss.
//
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks,verbs=get;list;watch

// Store holds the tasks by namespace and name. The tasks that it returns are shared: nobody changes them.
type Store struct {
	hub    *hub
	owners *owners
	now    func() time.Time
	// lag is told how long the watch took to show an object that was known already.
	lag func(time.Duration)
	// inline are the results that stood in tasks, by the task's UID.
	inline *lru[types.UID, []byte]

	mu      sync.RWMutex
	watched map[types.NamespacedName]*v1alpha1.McpTask
	// ahead are the tasks that the watch has yet to show.
	ahead map[types.NamespacedName]*remembered
	// shown is the newest resource version that the watch has shown of a namespace.
	shown map[string]string
}

type remembered struct {
	task  *v1alpha1.McpTask
	since time.Time
	// passed is when the watch was seen to be past it; zero while it is behind, however long that takes.
	passed time.Time
}

// counts says whether the task is still believed in.
func (r *remembered) counts(now time.Time) bool {
	return now.Sub(r.since) < longest && (r.passed.IsZero() || now.Sub(r.passed) < settled)
}

// NewStore makes an empty store. lag may be nil.
func NewStore(lag func(time.Duration)) *Store {
	if lag == nil {
		lag = func(time.Duration) {}
	}
	return &Store{
		hub: newHub(), owners: newOwners(), now: time.Now, lag: lag,
		inline:  newLRU[types.UID, []byte](maxInlineBytes),
		watched: map[types.NamespacedName]*v1alpha1.McpTask{},
		ahead:   map[types.NamespacedName]*remembered{},
		shown:   map[string]string{},
	}
}

// Get returns the newest state of a task that this replica knows.
func (s *Store) Get(key types.NamespacedName) (*v1alpha1.McpTask, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	task, ok := s.watched[key]
	if r, known := s.ahead[key]; known && r.counts(s.now()) && !newer(task, r.task) {
		return r.task, true
	}
	return task, ok
}

// Remember keeps what this replica wrote or read itself until the watch shows it, or something newer.
func (s *Store) Remember(task *v1alpha1.McpTask) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	s.mu.Lock()
	now := s.now()
	for other, r := range s.ahead {
		if !r.counts(now) {
			delete(s.ahead, other)
			if s.watched[other] == nil {
				s.owners.forget(other)
			}
		}
	}
	known := s.watched[key]
	if r, ok := s.ahead[key]; ok && (known == nil || newer(r.task, known)) {
		known = r.task
	}
	if known == nil || newer(task, known) {
		r := &remembered{task: s.strip(task), since: now}
		if shown := s.shown[task.Namespace]; shown != "" && !newerVersion(task.ResourceVersion, shown) {
			r.passed = now
		}
		s.ahead[key] = r
		s.owners.note(task)
	}
	s.mu.Unlock()
	s.hub.publish(key)
}

// Observe takes the watch's word for a task.
func (s *Store) Observe(task *v1alpha1.McpTask) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	s.mu.Lock()
	s.watched[key] = task
	if r, ok := s.ahead[key]; ok && !newer(r.task, task) {
		s.lag(s.now().Sub(r.since))
		delete(s.ahead, key)
	}
	s.pass(task)
	s.owners.note(task)
	s.mu.Unlock()
	s.hub.publish(key)
}

// Forget takes the watch's word that a task is gone.
func (s *Store) Forget(key types.NamespacedName) {
	s.mu.Lock()
	if task := s.watched[key]; task != nil {
		s.inline.remove(task.UID)
	}
	delete(s.watched, key)
	delete(s.ahead, key)
	s.owners.forget(key)
	s.mu.Unlock()
	s.hub.publish(key)
}

// pass notes how far the watch of a namespace is.
func (s *Store) pass(task *v1alpha1.McpTask) {
	if shown := s.shown[task.Namespace]; shown != "" && !newerVersion(task.ResourceVersion, shown) {
		return
	}
	s.shown[task.Namespace] = task.ResourceVersion
	for key, r := range s.ahead {
		if key.Namespace == task.Namespace && r.passed.IsZero() && newer(task, r.task) {
			r.passed = s.now()
		}
	}
}

// Watch follows tasks, each of them named once. At first every one counts as changed. The watch must be stopped.
func (s *Store) Watch(keys ...types.NamespacedName) *Watch {
	w := s.hub.watch(keys)
	for place := range keys {
		w.mark(place)
	}
	return w
}

// Subscribe returns a channel that has a value after each change of the task; several changes may make one value.
// stop must be called.
func (s *Store) Subscribe(key types.NamespacedName) (changed <-chan struct{}, stop func()) {
	w := s.hub.watch([]types.NamespacedName{key})
	return w.Changed(), w.Stop
}

// newer says whether a was written after b.
func newer(a, b *v1alpha1.McpTask) bool {
	if a == nil || b == nil {
		return a != nil
	}
	return newerVersion(a.ResourceVersion, b.ResourceVersion)
}

// newerVersion says whether a is a later resource version than b. Those of one resource are ordered numbers (Kubernetes 1.35, API
// concepts, Resource versions); should a server's not be, the watch's word counts.
func newerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Strip is the transform of the watch's cache: it drops what the bridge never reads, and takes out results, of which only the last
// ones are kept.
func (s *Store) Strip(object any) (any, error) {
	if task, ok := object.(*v1alpha1.McpTask); ok {
		return s.strip(task), nil
	}
	return object, nil
}

func (s *Store) strip(task *v1alpha1.McpTask) *v1alpha1.McpTask {
	task.ManagedFields = nil
	task.Spec.Arguments, task.Spec.ClientCapabilities = nil, nil
	if result := task.Status.Result; result != nil && result.Inline != nil {
		s.keep(task.UID, result.Inline.Raw)
		result.Inline = nil
	}
	for i := range task.Status.Runtime {
		if result := task.Status.Runtime[i].Result; result != nil {
			result.Inline = nil // its hash tells whether a Pod hands over another one
		}
	}
	return task
}

// keep keeps a result that stands in a task.
func (s *Store) keep(task types.UID, raw []byte) { s.inline.add(task, raw, int64(len(raw))) }
