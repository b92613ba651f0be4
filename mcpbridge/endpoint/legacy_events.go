package endpoint

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// beginEvents makes the answer a stream of server-sent events. Only the exchange's own goroutine writes it.
func (x *exchange) beginEvents() {
	header := x.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
	x.streaming = true
	_ = x.comment() // should the client have left, its context says so
}

// comment shows that the stream lives.
func (x *exchange) comment() error { return x.write([]byte(": waiting\n\n")) }

// event writes a message, which comes in parts.
func (x *exchange) event(message ...[]byte) error {
	limitWrite(x.w)
	for _, part := range slices.Concat([][]byte{[]byte("event: message\ndata: ")}, message, [][]byte{[]byte("\n\n")}) {
		if _, err := x.w.Write(part); err != nil {
			return err
		}
	}
	return http.NewResponseController(x.w).Flush()
}

func (x *exchange) write(p []byte) error {
	limitWrite(x.w)
	if _, err := x.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(x.w).Flush()
}

// reply answers with a value, unless there is an error.
func (x *exchange) reply(e *Endpoint, value any, err error) {
	var result []byte
	if err == nil {
		result, err = json.Marshal(value)
	}
	if err != nil {
		x.fail(e.unshown(x, err))
		return
	}
	x.result(result)
}

// teller tells an older client, on one stream, what its tasks ask and how far they are.
type teller struct {
	e *Endpoint
	x *exchange
	// follows is the task that the stream is about; "" for the GET stream, which is about all.
	follows string
	// nameless says that the client does not know of the task: it just calls a tool.
	nameless bool
	// since is when the stream began.
	since time.Time
	// asked are the questions that this stream has shown.
	asked map[shownQuestion]bool
	// reached is the progress told, by task.
	reached map[string]float64
}

func newTeller(e *Endpoint, x *exchange, follows string) *teller {
	return &teller{e: e, x: x, follows: follows, since: time.Now(), asked: map[shownQuestion]bool{}, reached: map[string]float64{}}
}

func (t *teller) listens() bool { return t.follows == "" }

// ask shows the questions of a task that have no answer yet, that the client can put to its user, and that neither this
// stream nor another has shown. It returns how many questions the task has open.
func (t *teller) ask(task *v1alpha1.McpTask) (open int, err error) {
	if task.Spec.Cancel != nil || task.Status.State != v1alpha1.TaskInputRequired {
		return 0, nil
	}
	for _, q := range wire.Outstanding(task) {
		if !t.x.request.Params.Meta.Elicitation.Can(wire.Mode(q)) {
			continue
		}
		open++
		key := shownQuestion{shownTask{t.x.session.ID, task.Name}, q.Key}
		if t.asked[key] || !t.e.shown.take(t, task.Name, q.Key) || !t.claim(task, q.Key) {
			continue
		}
		request, err := wire.ElicitationRequest(task.Name, q, !t.nameless)
		if err != nil {
			t.e.internal(t.x, err) // in the log; the other questions are shown all the same
			continue
		}
		t.asked[key] = true
		if err := t.x.event(request); err != nil {
			return open, err
		}
	}
	return open, nil
}

// progress tells how far a task is, if that is farther than was told before and the client asked for it. The token of a
// call is good for as long as its task lives (2025-11-25, Tasks, Task Progress Notifications).
func (t *teller) progress(task *v1alpha1.McpTask) error {
	token, name := json.RawMessage(task.Spec.ProgressToken), task.Name
	if t.nameless {
		token, name = t.x.request.Params.Meta.ProgressToken, ""
	} else if !t.x.hasHandle(task) {
		return nil // the token is another session's
	}
	told := task.Status.Progress
	if len(token) == 0 || told == nil {
		return nil
	}
	current, err := strconv.ParseFloat(told.Current, 64)
	if last, any := t.reached[task.Name]; err != nil || any && current <= last || current-current != 0 {
		return nil
	}
	t.reached[task.Name] = current
	if t.listens() && !t.e.shown.first(t, task.Name) {
		return nil
	}
	total, err := strconv.ParseFloat(told.Total, 64)
	if err != nil || total-total != 0 { // absent or odd: unknown, which is 0
		total = 0
	}
	return t.x.event(wire.ProgressNotification(token, current, total, told.Message, name))
}
