package endpoint

import (
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// listeners counts the GET streams, which are bounded for each caller and in all.
type listeners struct {
	perCaller, inAll int64
	metrics          *Metrics

	mu      sync.Mutex
	all     int64
	callers map[v1alpha1.Identity]int64
}

func newListeners(config *Config) *listeners {
	return &listeners{perCaller: config.MaxStreamsPerCaller, inAll: config.MaxStreams, metrics: config.Metrics, callers: map[v1alpha1.Identity]int64{}}
}

// enter takes a place, which leave gives back.
func (l *listeners) enter(caller v1alpha1.Identity) *wire.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callers[caller] >= l.perCaller {
		return l.metrics.streamsOfCaller(l.perCaller)
	}
	if l.all >= l.inAll {
		return l.metrics.streamsInAll(l.inAll)
	}
	l.callers[caller]++
	l.all++
	return nil
}

func (l *listeners) leave(caller v1alpha1.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.callers[caller]--; l.callers[caller] == 0 {
		delete(l.callers, caller)
	}
}

// listener is the GET stream of a session (2025-11-25, Transports, Listening for Messages from the Server).
type listener struct {
	*teller
	// known are the session's tasks that have not ended, as they were last seen.
	known map[types.NamespacedName]*seen
}

type seen struct {
	status  v1alpha1.TaskState
	message string
	// asking says that the task has questions open.
	asking bool
}

// serveLegacyStream tells a client, until it leaves, what its tasks ask, what becomes of them, and that the tools have changed.
func (e *Endpoint) serveLegacyStream(x *exchange) {
	if failure := e.listeners.enter(x.principal.Identity); failure != nil {
		x.fail(failure)
		return
	}
	defer e.listeners.leave(x.principal.Identity)
	l := &listener{teller: newTeller(e, x, ""), known: map[types.NamespacedName]*seen{}}
	defer e.shown.enter(l.teller)()
	feed := e.Store.Follow(x.namespace, x.principal.Identity)
	defer feed.Stop()
	toolsChanged, revision := e.Tools.Changed(), e.Tools.Revision(x.namespace)
	rhythm := e.subscriptions.rhythm
	beat, review := time.NewTicker(rhythm.heartbeat), time.NewTicker(rhythm.review)
	defer beat.Stop()
	defer review.Stop()
	x.beginEvents()
	for _, task := range e.Store.Owned(x.namespace, x.principal.Identity) {
		if l.tell(types.NamespacedName{Namespace: task.Namespace, Name: task.Name}) != nil {
			return
		}
	}
	for {
		var err error
		select {
		case <-feed.Changed():
			for _, key := range feed.Take() {
				if err = l.tell(key); err != nil {
					return
				}
			}
		case <-toolsChanged:
			toolsChanged = e.Tools.Changed() // before the list is looked at: no change falls in between
			if now := e.Tools.Revision(x.namespace); now != revision {
				revision = now
				err = l.tellTools()
			}
		case <-beat.C:
			if err = x.comment(); err == nil {
				err = l.askOnceMore()
			}
		case <-review.C:
			if e.disowned(x) {
				return
			}
		case <-e.draining:
			return // the client comes back, to another replica
		case <-x.http.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// tell looks at a task that may have changed. Of the caller's tasks, those are of the session whose handle it was given;
// what the others ask is theirs to show who made them.
func (l *listener) tell(key types.NamespacedName) error {
	task, ok := l.e.Store.Get(key)
	if !ok || !l.x.principal.Owns(task) || !l.x.hasHandle(task) {
		delete(l.known, key)
		return nil
	}
	before := l.known[key]
	if before == nil && ended(task) {
		return nil // nothing of it is told, and its result need not be read
	}
	shown, err := l.e.legacyTask(l.x, task)
	if err != nil {
		l.e.internal(l.x, err) // in the log; the other tasks are told of all the same
		return nil
	}
	now := &seen{status: shown.Status, message: shown.StatusMessage}
	if before != nil && (before.status != now.status || before.message != now.message) && l.e.shown.newest(l.teller) {
		params, err := json.Marshal(shown)
		if err != nil {
			l.e.internal(l.x, err)
			return nil
		}
		if err := l.x.event(wire.Notification("notifications/tasks/status", params)); err != nil {
			return err
		}
	}
	if ended(task) {
		delete(l.known, key)
		delete(l.reached, task.Name)
		return nil
	}
	l.known[key] = now
	if err := l.progress(task); err != nil {
		return err
	}
	open, err := l.ask(task)
	now.asking = open > 0
	return err
}

// askOnceMore shows the questions that other streams may have failed to show.
func (l *listener) askOnceMore() error {
	for key, seen := range l.known {
		task, ok := l.e.Store.Get(key)
		if !seen.asking || !ok {
			continue
		}
		if _, err := l.ask(task); err != nil {
			return err
		}
	}
	return nil
}

func (l *listener) tellTools() error {
	if !l.e.shown.newest(l.teller) {
		return nil
	}
	return l.x.event(wire.Notification("notifications/tools/list_changed", nil))
}
