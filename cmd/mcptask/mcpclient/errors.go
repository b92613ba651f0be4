package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Error codes of JSON-RPC 2.0 and of MCP (2026-07-28, Overview, Error Codes).
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

// ErrNoAnswer means that a request was not answered, or not to its end: what became of it is not known.
var ErrNoAnswer = errors.New("no answer from the server")

// RPCError is an error that the server answered with, or that a task ended with.
type RPCError struct {
	// Code is 0 when the answer was an HTTP error without a JSON-RPC error in it.
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
	// HTTPStatus of the answer; 0 for the error of a task.
	HTTPStatus int `json:"-"`
}

func (e *RPCError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("HTTP %d %s", e.HTTPStatus, http.StatusText(e.HTTPStatus))
	}
	return fmt.Sprintf("%s (error %d)", e.Message, e.Code)
}
