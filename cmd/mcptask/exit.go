package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// Exit codes.
const (
	exitToolError   = 1   // the tool ran and reported an error
	exitUsage       = 2   // the command line is wrong
	exitFailed      = 3   // the call failed or was cancelled
	exitRefused     = 4   // the server refused or did not answer
	exitInterrupted = 130 // by Ctrl-C, as shells count it
)

// ended is the end of a call that is no success.
type ended struct {
	code    int
	message string
}

func (e *ended) Error() string { return e.message }

// usagef is an error of the command line.
func usagef(format string, args ...any) error {
	return &ended{exitUsage, fmt.Sprintf(format, args...)}
}

func exitCode(err error) int {
	var end *ended
	switch {
	case err == nil:
		return 0
	case errors.As(err, &end):
		return end.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitRefused
}

// callError tells a call that failed from one that was refused. When the work of a call fails before it becomes a task,
// the server answers with the error that the task would have had.
func callError(err error) error {
	var rpc *mcpclient.RPCError
	if !errors.As(err, &rpc) || rpc.Code == 0 || rpc.HTTPStatus >= http.StatusBadRequest {
		return err
	}
	switch code := rpc.Code; {
	case code >= mcpclient.CodeInvalidParams && code <= mcpclient.CodeInvalidRequest, code == mcpclient.CodeParseError:
		return err
	case code >= -32099 && code <= mcpclient.CodeHeaderMismatch: // the range that MCP keeps for itself
		return err
	}
	return &ended{exitFailed, "the call failed: " + rpc.Error()}
}

// explain is what the user reads of an error, in one line.
func (p *program) explain(err error) string {
	text := oneLine(err.Error())
	var rpc *mcpclient.RPCError
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case !errors.As(err, &rpc):
		return text
	case rpc.HTTPStatus == http.StatusUnauthorized && !p.sendsToken():
		return text + "; say who you are with --service-account NAME, with --token-file FILE, or in MCPTASK_TOKEN"
	case rpc.HTTPStatus == http.StatusUnauthorized:
		return text + "; a token must be valid, and made for this endpoint" + p.madeFor()
	case rpc.Code == mcpclient.CodeMissingCapability:
		return text + "; this tool cannot be called with --no-tasks"
	}
	return text
}

func (p *program) madeFor() string {
	if p.audience == "" {
		return ""
	}
	return ": " + p.audience
}
