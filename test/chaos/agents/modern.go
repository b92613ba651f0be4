package agents

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
)

const (
	extension = "io.modelcontextprotocol/tasks"
	// keyField marks all tries of a call as the same.
	keyField = "mcptask.dev/idempotencyKey"
)

// How long an answer may take.
const (
	lookLimit = 10 * time.Second
	callLimit = 20 * time.Second
)

// modern speaks 2026-07-28 with the tasks extension: every request stands for itself.
type modern struct {
	*caller
	name string
	log  *record.Log
}

// request sends one request to the replica.
func (m *modern) request(ctx context.Context, replica, method, name string, params map[string]any, meta map[string]any, heard func(*message)) (json.RawMessage, error) {
	all := map[string]any{
		"io.modelcontextprotocol/protocolVersion": record.Modern,
		"io.modelcontextprotocol/clientInfo":      map[string]any{"name": m.name, "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"elicitation": map[string]any{"form": map[string]any{}}, "extensions": map[string]any{extension: map[string]any{}},
		},
	}
	for field, value := range meta {
		all[field] = value
	}
	params["_meta"] = all
	header := map[string]string{"MCP-Protocol-Version": record.Modern, "Mcp-Method": method}
	if name != "" {
		header["Mcp-Name"] = name
	}
	result, _, err := m.send(ctx, replica, map[string]any{"id": rand.Int32(), "method": method, "params": params}, header, heard)
	return result, err
}

func (m *modern) call(ctx context.Context, c record.Call) record.Call {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	meta := map[string]any{}
	if c.Keyed {
		meta[keyField] = c.ID
	}
	c.Sent = time.Now()
	var raw json.RawMessage
	var err error
	if c.Replica, err = m.pick(); err == nil {
		raw, err = m.request(ctx, c.Replica, "tools/call", c.Kind, map[string]any{"name": c.Kind, "arguments": map[string]any{"nonce": c.Nonce}}, meta, nil)
	}
	c.Answered = time.Now()
	read := record.Read{Client: c.Client, Era: c.Era, Replica: c.Replica, Via: "tools/call", Sent: c.Sent, Answered: c.Answered}
	if err == nil {
		var s shown
		if err = json.Unmarshal(raw, &s); err == nil {
			err = s.fill(m.log, &read)
		}
	}
	c.Refused, c.Lost = outcome(err)
	if err == nil {
		c.Task = read.Task
		m.log.Read(read)
	}
	return c
}

func (m *modern) get(ctx context.Context, task string) record.Read {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	read := record.Read{Client: m.name, Era: record.Modern, Via: "tasks/get", Task: task, Sent: time.Now()}
	var raw json.RawMessage
	var err error
	if read.Replica, err = m.pick(); err == nil {
		raw, err = m.request(ctx, read.Replica, read.Via, task, map[string]any{"taskId": task}, nil, nil)
	}
	read.Answered = time.Now()
	if isCode(err, -32602) {
		read.Unknown = true
		return read
	}
	if err == nil {
		var s shown
		if err = json.Unmarshal(raw, &s); err == nil {
			err = s.fill(m.log, &read)
		}
	}
	read.Refused, read.Lost = outcome(err)
	return read
}

// result is part of tasks/get already.
func (m *modern) result(context.Context, string) (record.Read, bool) { return record.Read{}, false }

func (m *modern) answer(ctx context.Context, a record.Answer, _ json.RawMessage) record.Answer {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	a.Sent = time.Now()
	var err error
	if a.Replica, err = m.pick(); err == nil {
		_, err = m.request(ctx, a.Replica, "tasks/update", a.Task, map[string]any{
			"taskId": a.Task, "inputResponses": map[string]any{a.Key: elicited(a.Value)},
		}, nil, nil)
	}
	a.Answered = time.Now()
	a.Acknowledged = err == nil
	a.Refused, a.Lost = outcome(err)
	return a
}

// elicited is the answer to a form.
func elicited(value string) map[string]any {
	return map[string]any{"action": "accept", "content": map[string]any{"value": value}}
}

func (m *modern) cancel(ctx context.Context, c record.Cancel) record.Cancel {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	c.Sent = time.Now()
	var err error
	if c.Replica, err = m.pick(); err == nil {
		_, err = m.request(ctx, c.Replica, "tasks/cancel", c.Task, map[string]any{"taskId": c.Task}, nil, nil)
	}
	c.Answered = time.Now()
	c.Acknowledged = err == nil
	c.Refused, c.Lost = outcome(err)
	return c
}

// watch hears of one task until it has ended; streams that break are opened anew.
func (m *modern) watch(ctx context.Context, task string, asked func(task string, q record.Question, id json.RawMessage)) {
	for ctx.Err() == nil {
		limited, stop := context.WithCancel(ctx)
		replica, err := m.pick()
		if err == nil { // how the stream ends says nothing: it is opened anew
			_, _ = m.request(limited, replica, "subscriptions/listen", "", map[string]any{"notifications": map[string]any{"taskIds": []string{task}}}, nil, func(heard *message) {
				if heard.Method != "notifications/tasks" {
					return
				}
				// Since when it was true is not known: Sent is left out.
				read := record.Read{Client: m.name, Era: record.Modern, Replica: replica, Via: "subscriptions/listen", Answered: time.Now()}
				var s shown
				if json.Unmarshal(heard.Params, &s) != nil || s.fill(m.log, &read) != nil {
					read.Task, read.Lost = task, "a notification that cannot be read: "+string(heard.Params)
				}
				m.log.Read(read)
				for _, q := range read.Questions {
					asked(task, q, nil)
				}
				if terminal(read.Status) {
					stop()
				}
			})
		}
		ended := limited.Err() != nil
		stop()
		if ended {
			return
		}
		pause(ctx, time.Second)
	}
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
