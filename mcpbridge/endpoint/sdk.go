package endpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// discoverTTL and listTTL are how long clients may reuse what they were told, in milliseconds.
	discoverTTL = 300_000
	listTTL     = 5_000
)

// newServer makes the SDK's server of one namespace.
func (e *Endpoint) newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: e.Server.Name, Version: e.Server.Version}, &mcp.ServerOptions{
		Logger:                    slog.New(slog.DiscardHandler),
		SupportedProtocolVersions: wire.Versions(), // what server/discover says; older requests do not come here
		Capabilities: &mcp.ServerCapabilities{
			Tools:      &mcp.ToolCapabilities{ListChanged: true}, // told by serveListen
			Extensions: map[string]any{wire.TasksExtension: struct{}{}},
		},
		SetCacheable: func(_ context.Context, request mcp.Request, cacheable *mcp.Cacheable) {
			// What a namespace offers is for those who may call it.
			cacheable.CacheScope, cacheable.TTLMs = "private", discoverTTL
			if _, ok := request.(*mcp.ListToolsRequest); ok {
				cacheable.TTLMs = listTTL
			}
		},
	})
	server.AddReceivingMiddleware(e.receive)
	return server
}

// serveSDK hands a checked request to the SDK, in a form that it reads without loss.
func (e *Endpoint) serveSDK(x *exchange) {
	if failure := checkParameters(x); failure != nil {
		x.fail(failure)
		return
	}
	if x.request.Method == "tools/call" && x.tool == nil {
		x.fail(unknownTool(x)) // the SDK knows tools that this caller may not call
		return
	}
	if x.tool != nil && waitLimit(x, x.tool) == 0 && !x.tool.MirrorsArguments() {
		e.serveHandle(x)
		return
	}
	id := x.request.ID
	if !x.request.ExactID() {
		id = json.RawMessage(strconv.Quote(rand.Text())) // the SDK would round it; the stream puts it back
	}
	body, err := x.request.Body(id)
	if err != nil {
		x.fail(e.internal(x, fmt.Errorf("writing the request anew: %w", err)))
		return
	}
	request := x.http.WithContext(context.WithValue(x.http.Context(), exchangeKey{}, x))
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	request.Header = request.Header.Clone()
	request.Header.Del("Last-Event-Id") // to be ignored (Streamable HTTP, Earlier Revisions); the SDK refuses it
	if name, ok := wire.DecodeHeader(request.Header.Get("Mcp-Name")); ok && name != "" {
		request.Header.Set("Mcp-Name", name) // the SDK compares it undecoded
	}
	handler, streams := e.json, false
	if x.tool != nil && waitLimit(x, x.tool) > 0 {
		handler, streams = e.sse, true
	}
	x.stream = newStream(e, x, streams, id)
	defer x.stream.close()
	handler.ServeHTTP(x.stream, request)
}

// checkParameters refuses what the SDK would refuse with Go's own words and the caller's text in them.
func checkParameters(x *exchange) *wire.Error {
	if cursor := x.request.Params.Cursor; len(cursor) > 0 && cursor[0] != '"' {
		return wire.InvalidParams("params.cursor must be a string")
	}
	arguments := x.request.Params.Arguments
	if len(arguments) > 0 && arguments[0] != '{' {
		return wire.InvalidParams("params.arguments must be an object")
	}
	if err := toolschema.CheckArguments(arguments); len(arguments) > 0 && err != nil {
		return wire.InvalidArguments(err)
	}
	return nil
}

// receive is the SDK's outermost middleware. Handlers run in goroutines of their own, where a panic would end the
// program; and errors leave here in the client's words or not at all.
func (e *Endpoint) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
		x := exchangeOf(ctx)
		if x == nil {
			return nil, &jsonrpc.Error{Code: wire.CodeInternalError, Message: "Internal error"}
		}
		defer func() {
			if p := recover(); p != nil {
				result, err = nil, x.refuse(e.internal(x, fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
			}
		}()
		if method == "tools/call" {
			e.calls.Add(1)
			defer e.calls.Done()
			answer, failure := e.call(ctx, x, request.GetSession().(*mcp.ServerSession))
			if failure != nil {
				return nil, x.refuse(failure)
			}
			x.stream.settle()
			return answer, nil
		}
		result, err = next(ctx, method, request)
		if err != nil {
			return nil, x.refuse(e.translate(x, err))
		}
		if list, ok := result.(*mcp.ListToolsResult); ok {
			var failure *wire.Error
			if list.Tools, failure = callable(e, x, list.Tools, func(tool *mcp.Tool) string { return tool.Name }); failure != nil {
				return nil, x.refuse(failure)
			}
		}
		x.stream.settle()
		return result, nil
	}
}

// refuse hands an error to the SDK, which keeps code and data only of its own type, unwrapped.
func (x *exchange) refuse(failure *wire.Error) error {
	x.outcome.Store(outcomeOf(failure))
	x.retryAfter(failure)
	x.stream.settle()
	return &jsonrpc.Error{Code: failure.Code, Message: failure.Message, Data: failure.Data}
}

// translate makes an error of the SDK fit for clients: its code says enough.
func (e *Endpoint) translate(x *exchange, err error) *wire.Error {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		return e.internal(x, err)
	}
	switch rpc.Code {
	case wire.CodeInvalidParams:
		return wire.InvalidParams("Invalid params")
	case wire.CodeInvalidRequest:
		return wire.InvalidRequest("Invalid request")
	case wire.CodeMethodNotFound:
		return wire.MethodNotFound()
	}
	return e.internal(x, err)
}

// answer is a result for the SDK to send: an object that is JSON already, and the SDK's own _meta.
type answer struct {
	mcp.ResultBase
	object []byte
}

// MarshalJSON implements json.Marshaler. The object has no _meta of its own: newAnswer took it out.
func (a *answer) MarshalJSON() ([]byte, error) {
	if len(a.Meta) == 0 {
		return a.object, nil
	}
	meta, err := json.Marshal(a.Meta)
	if err != nil {
		return nil, fmt.Errorf("_meta of the result: %w", err)
	}
	joined := append(bytes.TrimSuffix(bytes.TrimSpace(a.object), []byte("}")), `,"_meta":`...)
	return append(append(joined, meta...), '}'), nil
}

// newAnswer makes a result of an object without _meta and of the _meta that belongs to it.
func newAnswer(object []byte, meta json.RawMessage) (*answer, error) {
	a := &answer{object: bytes.Clone(object)}
	if len(meta) > 0 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(meta, &fields); err != nil {
			return nil, fmt.Errorf("_meta of the result: %w", err)
		}
		a.Meta = mcp.Meta{}
		for name, value := range fields {
			a.Meta[name] = value
		}
	}
	return a, nil
}
