// Package wire is what the bridge reads and writes: JSON-RPC requests and errors, and MCP's tasks and
// tool results. Nothing in it does I/O or knows the time.
package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// Error codes: JSON-RPC 2.0's own, and MCP's (2026-07-28, Overview, Error Codes).
const (
	CodeParseError         = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternalError      = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// CodeLimitReached is an error code of our own: a limit is reached, and data says which (2026-07-28, Overview, Error Codes: new
// codes are outside the range that JSON-RPC reserves).
const CodeLimitReached = 429

// CodeUnavailable is another: the server cannot answer now, because it ends, or because the cluster does not answer it. It says nothing
// about the task, whose own failures have other codes: what tasks/result and a call that waits are answered with may be either.
const CodeUnavailable = 503

// Error is a JSON-RPC error as a client sees it.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	// Status is the HTTP status of the answer; 0 means the one that belongs to the code.
	Status int `json:"-"`
	// RetryAfter is when the request may do better; 0 says nothing about that.
	RetryAfter time.Duration `json:"-"`
}

func (e *Error) Error() string { return e.Message }

func newError(code int64, message string) *Error { return &Error{Code: code, Message: message} }

// InvalidRequest says that the body is no JSON-RPC request.
func InvalidRequest(message string) *Error { return newError(CodeInvalidRequest, message) }

// InvalidParams says that the parameters do not fit the method.
func InvalidParams(message string) *Error { return newError(CodeInvalidParams, message) }

// HeaderMismatch says that a header is missing or contradicts the body.
func HeaderMismatch(message string) *Error { return newError(CodeHeaderMismatch, message) }

// MethodNotFound says that the server has no such method. The name is not repeated: it is the caller's text.
func MethodNotFound() *Error { return newError(CodeMethodNotFound, "Method not found") }

// UnknownTask is the one answer for a task that never was, that was deleted, and that is somebody else's.
func UnknownTask() *Error { return newError(CodeInvalidParams, "Unknown task") }

// MissingTasksCapability says that the request does not declare the tasks extension (tasks, Capability Negotiation).
func MissingTasksCapability() *Error {
	return &Error{
		Code:    CodeMissingCapability,
		Message: "Missing required client capability: the extension " + TasksExtension,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + TasksExtension + `":{}}}}`),
	}
}

// LimitReached says which limit is reached, what it is set to (0: that is not known) and when to try again.
func LimitReached(limit string, value int64, retryAfter time.Duration, words string) *Error {
	e := &Error{Code: CodeLimitReached, RetryAfter: retryAfter}
	e.Data, _ = json.Marshal(struct {
		Limit      string `json:"limit"`
		Value      int64  `json:"value,omitempty"`
		RetryAfter int64  `json:"retryAfterSeconds"`
	}{limit, value, e.RetryAfterSeconds()}) // strings and numbers always marshal
	e.Message = fmt.Sprintf("Limit reached: %s. Try again in %d s", words, e.RetryAfterSeconds())
	return e
}

// ServerLeaves says that the wait for a task ends because the server does. The task goes on; then says how its result is had.
func ServerLeaves(task, then string) *Error {
	return &Error{Code: CodeUnavailable, Data: TaskData(task),
		Message: "This server is restarting and cannot wait for the result. The task goes on as " + task + "; " + then}
}

// TaskData is the data of an error of a call that names its task.
func TaskData(task string) json.RawMessage {
	data, _ := json.Marshal(map[string]string{"taskId": task}) // strings always marshal
	return data
}

// RetryAfterSeconds is RetryAfter in whole seconds, rounded up.
func (e *Error) RetryAfterSeconds() int64 { return int64(math.Ceil(e.RetryAfter.Seconds())) }

// UnsupportedVersion lists what is supported (Versioning, Protocol Version Negotiation).
func UnsupportedVersion(requested string) *Error {
	data, _ := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{Versions(), clip(requested, 64)}) // strings always marshal
	return &Error{Code: CodeUnsupportedVersion, Message: "Unsupported protocol version; supported: " + ProtocolVersion + ", and by initialize " + strings.Join(legacyVersions, ", "), Data: data}
}

// HTTPStatus is the HTTP status of an answer with this error (2026-07-28, Streamable HTTP).
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	switch e.Code {
	case CodeMethodNotFound:
		return http.StatusNotFound
	case CodeParseError, CodeInvalidRequest, CodeInvalidParams, CodeHeaderMismatch, CodeMissingCapability, CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// ErrorResponse is the whole response with an error. Without an id it belongs to no request that could be read: then it has none
// (2026-07-28, schema, JSONRPCErrorResponse: the id is left out, and never null).
func ErrorResponse(id json.RawMessage, e *Error) []byte {
	response, _ := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   *Error          `json:"error"`
	}{"2.0", id, e}) // the id was parsed and Data is made here: both marshal
	return response
}

// Around is what stands before and after a result, which is JSON already, in the whole response.
func Around(id json.RawMessage) (before, after []byte) {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":`, id), []byte("}")
}

// clip bounds a text that came from outside.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
