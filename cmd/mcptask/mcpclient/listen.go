package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// errEnough ends a stream on the client's side.
var errEnough = errors.New("enough was heard")

// Listen opens a stream of notifications about tasks (subscriptions/listen). First granted is called with the ids that
// the server will tell of, then told with the present state of each and with each change, one at a time. Listen returns
// nil when the server ends the stream, and when told returns false.
func (c *Client) Listen(ctx context.Context, ids []string, granted func(ids []string), told func(*Task) bool) error {
	notify := func(m *message) error {
		switch m.Method {
		case "notifications/subscriptions/acknowledged":
			var params struct {
				Notifications struct {
					TaskIDs []string `json:"taskIds"`
				} `json:"notifications"`
			}
			if err := json.Unmarshal(m.Params, &params); err != nil {
				return fmt.Errorf("reading the acknowledgement: %w", err)
			}
			granted(params.Notifications.TaskIDs)
		case "notifications/tasks":
			task := &Task{}
			if err := json.Unmarshal(m.Params, task); err != nil {
				return fmt.Errorf("reading the notification of a task: %w", err)
			}
			if !told(task) {
				return errEnough
			}
		}
		return nil
	}
	var ended struct{}
	err := c.call(ctx, request{method: "subscriptions/listen", params: map[string]any{
		"notifications": map[string]any{"taskIds": ids}}, notify: notify}, &ended)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// listenAnew is how long Watch relies on one stream. A stream says nothing about a task that was deleted, and may be dead
// without a sign.
const listenAnew = time.Minute

// Watch hands each state of the tasks to seen, until all of them have ended or ctx ends. It hears of changes from the
// server, and looks by itself, as often as the server wants, where the server does not tell. States that follow one
// another fast may be left out, and the same state may be seen twice. A task that cannot be watched, for instance an
// unknown one, does not end the watch of the others: the error comes at the end.
func (c *Client) Watch(ctx context.Context, ids []string, seen func(*Task)) error {
	w := &watching{client: c, seen: seen, retry: c.options.Retry}
	for _, id := range ids {
		if !slices.Contains(w.open, id) {
			w.open = append(w.open, id)
		}
	}
	for len(w.open) > 0 {
		pause := w.listen(ctx)
		if ctx.Err() == nil && len(w.open) > 0 {
			pause = max(pause, w.look(ctx))
		}
		if ctx.Err() == nil && len(w.open) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(w.faults...)
}

// watching is one Watch.
type watching struct {
	client *Client
	seen   func(*Task)
	retry  wait.Backoff
	// open are the tasks that have not ended.
	open   []string
	faults []error
	// interval is how often the server wants to be asked.
	interval time.Duration
	// deaf says that the server has no such streams.
	deaf bool
}

// listen hears of the tasks as long as that is useful, and returns how long to wait before the next try.
func (w *watching) listen(ctx context.Context) time.Duration {
	if w.deaf {
		return w.interval
	}
	limited, stop := context.WithCancel(ctx)
	defer stop()
	enough := time.AfterFunc(listenAnew, stop)
	defer enough.Stop()
	start, asked := time.Now(), len(w.open)
	err := w.client.Listen(limited, w.open, func(granted []string) {
		w.retry = w.client.options.Retry
		if len(granted) < asked { // the others have to be looked at
			stop()
		}
	}, func(task *Task) bool {
		w.take(task)
		return len(w.open) > 0
	})
	var refused *RPCError
	if errors.As(err, &refused) && !passing(err) && refused.HTTPStatus != http.StatusUnauthorized {
		w.deaf = true
	}
	if time.Since(start) < listenAnew {
		return max(w.interval, minPollInterval)
	}
	return 0
}

// look asks for each task once, and returns how long to wait after it.
func (w *watching) look(ctx context.Context) (pause time.Duration) {
	for _, id := range slices.Clone(w.open) {
		task, err := w.client.GetTask(ctx, id)
		switch {
		case ctx.Err() != nil:
			return 0
		case err == nil:
			w.retry = w.client.options.Retry
			w.take(task)
		case passing(err) && w.retry.Steps > 0:
			return w.retry.Step()
		default:
			w.faults = append(w.faults, fmt.Errorf("task %s: %w", id, err))
			w.drop(id)
		}
	}
	return 0
}

func (w *watching) take(task *Task) {
	if !slices.Contains(w.open, task.ID) {
		return
	}
	w.interval = task.pollInterval()
	if task.Status.Terminal() {
		w.drop(task.ID)
	}
	w.seen(task)
}

func (w *watching) drop(id string) {
	w.open = slices.DeleteFunc(w.open, func(open string) bool { return open == id })
}
