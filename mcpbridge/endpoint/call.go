package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// takesHandle says whether the caller may be answered with a task.
func takesHandle(x *exchange, tool *tools.Tool) bool {
	return x.request.Params.Meta.Tasks && tool.TaskSupport() != v1alpha1.TaskSupportForbidden
}

// waitLimit is how long the call waits for its result; 0 is not at all.
func waitLimit(x *exchange, tool *tools.Tool) time.Duration {
	if takesHandle(x, tool) {
		return tool.SyncWindow()
	}
	return tool.MaxWait()
}

// call answers tools/call: it makes a task, or finds the one that the caller means, waits for its result as long as the
// tool and the caller allow, and says what there is.
func (e *Endpoint) call(ctx context.Context, x *exchange, session *mcp.ServerSession) (*answer, *wire.Error) {
	tool := x.tool
	meta := &x.request.Params.Meta
	if tool.TaskSupport() == v1alpha1.TaskSupportRequired && !meta.Tasks {
		return nil, wire.MissingTasksCapability()
	}
	if missing := tool.Asks().Without(meta.Elicitation); missing != (wire.Elicitation{}) {
		return nil, wire.MissingElicitation(missing)
	}
	state, failure := e.readState(x, tool)
	if failure != nil {
		return nil, failure
	}
	var begin func() (*v1alpha1.McpTask, *wire.Error)
	if state.Task != "" {
		begin = func() (*v1alpha1.McpTask, *wire.Error) { return e.resume(x, state.Task) }
	} else {
		arguments, questions, failure := e.preflight(x, tool, state)
		if failure != nil || questions != nil {
			return questions, failure
		}
		task, failure := newTask(x, tool, arguments)
		if failure != nil {
			return nil, failure
		}
		begin = func() (*v1alpha1.McpTask, *wire.Error) {
			return e.createOnce(x, tool, task, idempotencyKey(meta, state))
		}
	}
	limit, release, failure := e.reserve(x, tool)
	if failure != nil {
		return nil, failure
	}
	defer release()
	task, failure := begin()
	if failure != nil {
		return nil, failure
	}
	if limit > 0 {
		x.stream.begin()
	}
	return e.await(ctx, x, session, tool, task, limit)
}

// serveHandle answers a call that waits for nothing: with a task, or with what is asked before there is one. It does not go through the
// SDK, which reads and writes each message several times over.
func (e *Endpoint) serveHandle(x *exchange) {
	e.calls.Add(1)
	defer e.calls.Done()
	a, failure := e.call(x.http.Context(), x, nil)
	if failure != nil {
		x.fail(failure)
		return
	}
	if a.Meta == nil {
		a.Meta = mcp.Meta{}
	}
	if _, said := a.Meta[wire.MetaServerInfo]; !said { // as the SDK does
		a.Meta[wire.MetaServerInfo] = e.Server
	}
	result, err := json.Marshal(a)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	x.result(result)
}

// reserve takes one of the places for calls that wait, before there is a task. It returns how long the call may wait.
func (e *Endpoint) reserve(x *exchange, tool *tools.Tool) (limit time.Duration, release func(), failure *wire.Error) {
	release = func() {}
	if limit = waitLimit(x, tool); limit <= 0 {
		return limit, release, nil
	}
	if release, ok := e.takePlace(); ok {
		return limit, release, nil
	}
	if takesHandle(x, tool) {
		return 0, release, nil // a handle needs no waiting
	}
	return 0, release, e.tooManyWait("no task was created")
}

// takePlace takes one of the places for calls that wait, if one is free.
func (e *Endpoint) takePlace() (release func(), ok bool) {
	select {
	case e.slots <- struct{}{}:
		e.Metrics.waiting.Inc()
		return func() { <-e.slots; e.Metrics.waiting.Dec() }, true
	default:
		return func() {}, false
	}
}

// tooManyWait says that no place is free, and then what that means for the call.
func (e *Endpoint) tooManyWait(then string) *wire.Error {
	return e.Metrics.refused(&limits.Refusal{Limit: limits.WaitingCalls, Value: int64(cap(e.slots)), RetryAfter: retryBusy, Words: fmt.Sprintf(
		"%d calls are waiting for their results, as many as this server holds; %s", cap(e.slots), then)})
}

// clipName bounds a name that is repeated to its sender.
func clipName(name string) string {
	const longest = 128 // what a tool's name may have (Tools, Tool Names)
	if len(name) <= longest {
		return name
	}
	return strings.ToValidUTF8(name[:longest], "") + "…"
}
