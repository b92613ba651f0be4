package endpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// writeTimeout bounds how long a client may take to accept what is written to it.
const writeTimeout = 30 * time.Second

// limitWrite gives the client writeTimeout from now. Not every ResponseWriter has deadlines; then there are no slow clients either.
func limitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// result answers with a result that is JSON already.
func (x *exchange) result(result []byte) {
	before, after := wire.Around(x.request.ID)
	x.send(http.StatusOK, before, result, after)
}

// fail answers with an error.
func (x *exchange) fail(failure *wire.Error) {
	x.outcome.Store(outcomeOf(failure))
	x.retryAfter(failure)
	if x.era == modern {
		x.send(failure.HTTPStatus(), wire.ErrorResponse(x.request.ID, failure))
		return
	}
	id := x.request.ID
	if failure.Code == wire.CodeInvalidRequest && failure.Status != http.StatusOK {
		id = nil // it belongs to no request (2025-11-25, Transports, Sending Messages to the Server)
	}
	x.send(failure.LegacyHTTPStatus(), wire.ErrorResponse(id, failure))
}

// retryAfter says in the head of the answer when to try again (RFC 9110, 10.2.3), where there still is one.
func (x *exchange) retryAfter(failure *wire.Error) {
	if failure.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", strconv.FormatInt(failure.RetryAfterSeconds(), 10))
	}
}

// send answers with a body in parts: the result among them may be large, and is shared with others who ask for it.
func (x *exchange) send(status int, body ...[]byte) {
	if x.streaming {
		_ = x.event(body...) // the client has left: there is nobody to tell
		return
	}
	length := 0
	for _, part := range body {
		length += len(part)
	}
	limitWrite(x.w)
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(length))
	x.w.WriteHeader(status)
	for _, part := range body {
		_, _ = x.w.Write(part) // the client has left: there is nobody to tell
	}
}

// internal logs an error that is nobody's but ours, and makes the answer that refers to the log.
func (e *Endpoint) internal(x *exchange, err error) *wire.Error {
	id := rand.Text()[:12]
	e.Log.Error("internal error", "errorId", id, "namespace", x.namespace, "method", x.label,
		"principal", x.principal.String(), "error", err)
	return &wire.Error{
		Code:    wire.CodeInternalError,
		Message: "Internal error; the server's log names the cause under the id " + id,
		Data:    []byte(`{"errorId":"` + id + `"}`),
	}
}

// unshown says why a task cannot be shown: it is gone, or its result is, or that cannot be read now.
func (e *Endpoint) unshown(x *exchange, err error) *wire.Error {
	return e.cannotShow(x, err, "The cluster does not answer now, try again.")
}

// unread is unshown for a caller who waited for the result and may not know the task: who calls again instead has the work done again.
func (e *Endpoint) unread(x *exchange, task *v1alpha1.McpTask, err error) *wire.Error {
	failure := e.cannotShow(x, err, fmt.Sprintf("The tool has ended, and its result cannot be read now. It is kept with the task %s; %s. A new call would do the work once more.",
		task.Name, whereItEnds(task)))
	if failure.Code == wire.CodeUnavailable {
		failure.Data = wire.TaskData(task.Name)
	}
	return failure
}

// cannotShow is either; now is what is said where the result cannot be read now.
func (e *Endpoint) cannotShow(x *exchange, err error, now string) *wire.Error {
	if errors.Is(err, tasks.ErrUnknown) {
		return wire.UnknownTask()
	}
	var damaged *resultsecret.Damaged
	if errors.As(err, &damaged) {
		failure := e.internal(x, err)
		failure.Message = "The task has ended and its result is lost: what was stored of it was deleted or changed since. " +
			"Whether the work may be done once more is for you to say, with a new call. " + failure.Message
		return failure
	}
	failure := e.unavailable(x, err)
	failure.Code = wire.CodeUnavailable // a stream has no other status
	failure.Message = now + " " + failure.Message
	return failure
}
