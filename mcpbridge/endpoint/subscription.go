package endpoint

import (
	"errors"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// rhythm is how often things happen on a stream of notifications. Tests are faster.
type rhythm struct {
	// heartbeat is how long a stream is silent at most.
	heartbeat time.Duration
	// write is how long a client may take to accept what is written to it.
	write time.Duration
	// hurry is the same once the bridge is about to end.
	hurry time.Duration
	// tools is the least time between two notifications that the tools have changed.
	tools time.Duration
	// review is how often the caller's credentials are looked at again.
	review time.Duration
}

var calm = rhythm{heartbeat: heartbeat, write: writeTimeout, hurry: 2 * time.Second, tools: time.Second, review: 5 * time.Minute}

// subscription is one stream of notifications. All that waits for a client which does not read is in tasks.Watch: a mark
// for each task that has changed.
type subscription struct {
	e        *Endpoint
	x        *exchange
	messages wire.Subscription
	rhythm   rhythm
	out      *http.ResponseController

	tasks *tasks.Watch
	// told is the digest of what was last said about each task.
	told map[types.NamespacedName]uint64
	// untold are tasks whose result could not be read. They are tried again.
	untold []types.NamespacedName

	// beat comes when nothing was written for a while.
	beat *time.Ticker

	tools struct {
		changed  <-chan struct{}  // closed when some list of tools changes; nil when the client does not want to know
		revision int64            // of the list that the client knows of
		resume   <-chan time.Time // comes when the client may be told again; nil when it may
	}
}

func newSubscription(e *Endpoint, x *exchange, messages wire.Subscription) *subscription {
	return &subscription{e: e, x: x, messages: messages, rhythm: e.subscriptions.rhythm, out: http.NewResponseController(x.w)}
}

// serve acknowledges what was granted and tells it until the client leaves or the bridge ends.
func (s *subscription) serve(granted wire.Filter) {
	s.tasks = s.e.Store.Watch(s.x.keys(granted.TaskIDs)...)
	defer s.tasks.Stop()
	s.told = make(map[types.NamespacedName]uint64, len(granted.TaskIDs))
	if granted.ToolsListChanged {
		s.tools.changed = s.e.Tools.Changed()
		s.tools.revision = s.e.Tools.Revision(s.x.namespace)
	}
	s.beat = time.NewTicker(s.rhythm.heartbeat)
	defer s.beat.Stop()
	header := s.x.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	s.x.w.WriteHeader(http.StatusOK)
	err := s.event(s.messages.Acknowledged(granted))
	if err == nil {
		err = s.out.Flush()
	}
	if err == nil {
		err = s.tell()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.e.Metrics.streamsCut.Inc()
		s.e.Log.Info("a stream of notifications was cut: its client does not read", "principal", s.x.principal.String(),
			"namespace", s.x.namespace, "remote", s.x.http.RemoteAddr)
	}
}

// tell returns an error when the client cannot be written to, and nil when the stream ended as it should.
func (s *subscription) tell() error {
	review := time.NewTicker(s.rhythm.review)
	defer review.Stop()
	for {
		var err error
		var end string
		select {
		case <-s.tasks.Changed():
			err = s.tellTasks(s.tasks.Take())
		case <-s.tools.changed:
			err = s.tellTools()
		case <-s.tools.resume:
			s.tools.resume = nil
			err = s.tellTools()
		case <-s.beat.C:
			if err = s.write([]byte(":\n\n")); err == nil {
				again := s.untold
				s.untold = nil
				err = s.tellTasks(again)
			}
		case <-review.C:
			if s.e.disowned(s.x) {
				end = "the credentials are no longer accepted"
			}
		case <-s.e.draining:
			end = "the server is shutting down"
		case <-s.x.http.Context().Done():
			return nil
		}
		if err == nil && end != "" {
			return s.end(end)
		}
		if err == nil {
			err = s.out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// tellTasks says what tasks/get would say now about each task that has changed. A task that is gone, or that came anew
// as somebody else's, is not spoken of.
func (s *subscription) tellTasks(changed []types.NamespacedName) error {
	for _, key := range changed {
		task, ok := s.e.Store.Get(key)
		if !ok || !s.x.principal.Owns(task) {
			continue
		}
		told, err := s.tellTask(key, task)
		if err != nil {
			return err
		}
		if !told {
			s.untold = append(s.untold, key)
		}
	}
	return nil
}

// tellTask says what tasks/get would say now about a task, if that is news. It is not told when that cannot be said now; the error
// is that of the stream.
func (s *subscription) tellTask(key types.NamespacedName, task *v1alpha1.McpTask) (told bool, err error) {
	done, failure := s.e.deliver(s.x, task)
	if failure != nil {
		return false, nil
	}
	defer done()
	payload, err := s.e.payload(s.x, task)
	if err != nil {
		_ = s.e.internal(s.x, err) // in the log; the other tasks are told of all the same
		return false, nil
	}
	if last, known := s.told[key]; known && last == payload.Digest {
		return true, nil // what changed is not shown to clients
	}
	s.told[key] = payload.Digest
	head, fields, tail := s.messages.Task(payload.Fields)
	if err := s.event(head, fields, tail); err != nil {
		return false, err
	}
	s.e.Metrics.notifications.WithLabelValues("tasks").Inc()
	return true, nil
}

// tellTools says that the list of the namespace's tools has changed, if it has. While many tools change, not each is
// told of: the client reads the whole list anyway.
func (s *subscription) tellTools() error {
	s.tools.changed = s.e.Tools.Changed() // before the list is looked at: no change falls in between
	revision := s.e.Tools.Revision(s.x.namespace)
	if revision == s.tools.revision || s.tools.resume != nil {
		return nil
	}
	s.tools.revision, s.tools.resume = revision, time.After(s.rhythm.tools)
	s.e.Metrics.notifications.WithLabelValues("tools").Inc()
	return s.event(s.messages.ToolsListChanged())
}

// end closes the stream on the bridge's initiative. The specification says it twice, with a response (Subscriptions,
// Graceful Closure) and with a notification that must be sent (Cancellation). Clients take whichever comes first for
// the truth, and the notification for a fault: the response goes first.
func (s *subscription) end(reason string) error {
	if err := s.event(s.messages.Response()); err != nil {
		return err
	}
	if err := s.event(s.messages.Cancelled(reason)); err != nil {
		return err
	}
	return s.out.Flush()
}

// event writes one event, whose data comes in parts.
func (s *subscription) event(parts ...[]byte) error {
	if err := s.write([]byte("event: message\ndata: ")); err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := s.x.w.Write(part); err != nil {
			return err
		}
	}
	_, err := s.x.w.Write([]byte("\n\n"))
	return err
}

// write writes the beginning of an event, or a comment, and gives the client the time for it.
func (s *subscription) write(p []byte) error {
	s.e.subscriptions.limitWrite(s)
	s.beat.Reset(s.rhythm.heartbeat)
	_, err := s.x.w.Write(p)
	return err
}
