package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// legacy speaks 2025-11-25 with its experimental tasks: a session, and questions on streams.
type legacy struct {
	*caller
	name string
	log  *record.Log
	// asked is told of each question.
	asked func(task string, q record.Question, id json.RawMessage)

	mu      sync.Mutex
	session string
}

// begin gives the id of the session, which is made when there is none.
func (l *legacy) begin(ctx context.Context, replica string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != "" {
		return l.session, nil
	}
	_, header, err := l.send(ctx, replica, map[string]any{"id": rand.Int32(), "method": "initialize", "params": map[string]any{
		"protocolVersion": record.Legacy, "clientInfo": map[string]any{"name": l.name, "version": "1"},
		"capabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
	}}, nil, nil)
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	session := header.Get("Mcp-Session-Id")
	_, _, err = l.send(ctx, replica, map[string]any{"method": "notifications/initialized"}, headerOf(session), nil)
	if err != nil {
		return "", fmt.Errorf("notifications/initialized: %w", err)
	}
	l.session = session
	return session, nil
}

func headerOf(session string) map[string]string {
	return map[string]string{"MCP-Protocol-Version": record.Legacy, "Mcp-Session-Id": session}
}

func (l *legacy) request(ctx context.Context, replica, method string, params map[string]any) (json.RawMessage, error) {
	session, err := l.begin(ctx, replica)
	if err != nil {
		return nil, err
	}
	result, _, err := l.send(ctx, replica, map[string]any{"id": rand.Int32(), "method": method, "params": params}, headerOf(session),
		func(m *message) { l.heard(replica, m) })
	return result, err
}

// heard takes what the server says on a stream: questions, and changes of tasks.
func (l *legacy) heard(replica string, m *message) {
	read := record.Read{Client: l.name, Era: record.Legacy, Replica: replica, Via: m.Method, Answered: time.Now()} // since when it was true is not known
	switch m.Method {
	case "notifications/tasks/status":
		var s shown
		if json.Unmarshal(m.Params, &s) == nil && s.fill(l.log, &read) == nil {
			l.log.Read(read)
		}
	case "elicitation/create":
		var params struct {
			Message string
			Meta    map[string]struct{ TaskID string } `json:"_meta"`
		}
		if json.Unmarshal(m.Params, &params) != nil {
			return
		}
		task := params.Meta["io.modelcontextprotocol/related-task"].TaskID
		q := record.Question{Key: string(m.ID), Message: params.Message}
		read.Task, read.Status, read.Questions = task, "input_required", []record.Question{q}
		l.log.Read(read)
		l.asked(task, q, m.ID)
	}
}

func (l *legacy) call(ctx context.Context, c record.Call) record.Call {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	params := map[string]any{"name": c.Kind, "arguments": map[string]any{"nonce": c.Nonce}, "task": map[string]any{}}
	if c.Keyed {
		params["_meta"] = map[string]any{keyField: c.ID}
	}
	c.Sent = time.Now()
	var raw json.RawMessage
	var err error
	if c.Replica, err = l.pick(); err == nil {
		raw, err = l.request(ctx, c.Replica, "tools/call", params)
	}
	c.Answered = time.Now()
	read := record.Read{Client: c.Client, Era: c.Era, Replica: c.Replica, Via: "tools/call", Sent: c.Sent, Answered: c.Answered}
	if err == nil {
		var result struct{ Task shown }
		if err = json.Unmarshal(raw, &result); err == nil {
			err = result.Task.fill(l.log, &read)
		}
	}
	c.Refused, c.Lost = outcome(err)
	if err == nil {
		c.Task = read.Task
		l.log.Read(read)
	}
	return c
}

func (l *legacy) get(ctx context.Context, task string) record.Read {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	read, raw, err := l.look(ctx, "tasks/get", task)
	if err == nil {
		var s shown
		if err = json.Unmarshal(raw, &s); err == nil {
			err = s.fill(l.log, &read)
		}
	}
	if !read.Unknown {
		read.Refused, read.Lost = outcome(err)
	}
	return read
}

func (l *legacy) look(ctx context.Context, method, task string) (record.Read, json.RawMessage, error) {
	read := record.Read{Client: l.name, Era: record.Legacy, Via: method, Task: task, Sent: time.Now()}
	var raw json.RawMessage
	var err error
	if read.Replica, err = l.pick(); err == nil {
		raw, err = l.request(ctx, read.Replica, method, map[string]any{"taskId": task})
	}
	read.Answered = time.Now()
	if isCode(err, -32602) {
		read.Unknown = true
		return read, nil, errUnknown
	}
	return read, raw, err
}

// errUnknown means that the server knows no such task.
var errUnknown = errors.New("unknown task")

// result asks for the outcome of a task that has ended. It says whether there is something to be recorded.
func (l *legacy) result(ctx context.Context, task string) (record.Read, bool) {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	return l.await(ctx, task), true
}

// await waits for the outcome of a task as long as the context lasts. The outcome is a result or an error; the status that
// the record gives it is that which the outcome has in tasks/get of the same revision.
func (l *legacy) await(ctx context.Context, task string) record.Read {
	read, raw, err := l.look(ctx, "tasks/result", task)
	var no *refusal
	switch {
	case read.Unknown:
	case err == nil:
		var result struct{ IsError bool }
		if json.Unmarshal(raw, &result) != nil {
			read.Lost = "a result that cannot be read: " + string(raw)
			return read
		}
		read.Status, read.Result = "completed", l.log.Body(withoutMeta(raw))
		if result.IsError {
			read.Status = "failed"
		}
	case errors.As(err, &no) && no.code != 0 && strings.Contains(no.text, "has no result"):
		read.Status = "cancelled"
	case errors.As(err, &no) && no.code == 503:
		read.Lost = no.text // this replica ends, the task does not
	case errors.As(err, &no) && no.code != 0 && no.status == http.StatusOK:
		read.Status, read.Error = "failed", no.text
	default:
		read.Refused, read.Lost = outcome(err)
	}
	return read
}

// withoutMeta leaves out what the answer says about its own task.
func withoutMeta(raw json.RawMessage) string {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return string(raw)
	}
	delete(fields, "_meta")
	text, err := json.Marshal(fields)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

func (l *legacy) answer(ctx context.Context, a record.Answer, id json.RawMessage) record.Answer {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	a.Sent = time.Now()
	var err error
	var session string
	if a.Replica, err = l.pick(); err == nil {
		if session, err = l.begin(ctx, a.Replica); err == nil {
			_, _, err = l.send(ctx, a.Replica, map[string]any{"id": id, "result": elicited(a.Value)}, headerOf(session), nil)
		}
	}
	a.Answered = time.Now()
	a.Acknowledged = err == nil
	a.Refused, a.Lost = outcome(err)
	return a
}

func (l *legacy) cancel(ctx context.Context, c record.Cancel) record.Cancel {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	c.Sent = time.Now()
	var err error
	if c.Replica, err = l.pick(); err == nil {
		_, err = l.request(ctx, c.Replica, "tasks/cancel", map[string]any{"taskId": c.Task})
	}
	c.Answered = time.Now()
	c.Acknowledged = err == nil
	c.Refused, c.Lost = outcome(err)
	return c
}

// watch waits for the result of one task on a stream, which also brings its questions.
func (l *legacy) watch(ctx context.Context, task string, _ func(string, record.Question, json.RawMessage)) {
	for ctx.Err() == nil {
		read := l.await(ctx, task)
		if ctx.Err() != nil {
			return
		}
		l.log.Read(read)
		if read.Told() || read.Unknown {
			return
		}
		pause(ctx, time.Second)
	}
}

// listen keeps the session's own stream open.
func (l *legacy) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = l.stream(ctx) // whatever ended it, it is opened anew
		pause(ctx, time.Second)
	}
}

func (l *legacy) stream(ctx context.Context) error {
	replica, err := l.pick()
	if err != nil {
		return err
	}
	session, err := l.begin(ctx, replica)
	if err != nil {
		return err
	}
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, replica+l.path, nil)
	if err != nil {
		return err
	}
	get.Header.Set("Accept", "text/event-stream")
	l.sign(get, headerOf(session))
	answer, err := l.http.Do(get)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = l.hear(answer, nil, func(m *message) { l.heard(replica, m) })
	return err
}
