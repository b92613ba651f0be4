package endpoint

import (
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// bodyTimeout bounds how long a client may take to send its body.
const bodyTimeout = 15 * time.Second

// admit checks a request, cheapest and most general first: where it goes and where it comes from, who sends it, its
// body, its headers against its body, and then what the rule of its method asks for.
func (e *Endpoint) admit(x *exchange) (rule, *wire.Error) {
	for _, check := range []func(*exchange) *wire.Error{e.checkTarget, e.checkOrigin, checkMedia, e.authenticate, e.read} {
		if failure := check(x); failure != nil {
			x.discard()
			return rule{}, failure
		}
	}
	if x.request.Method == "initialize" && x.http.Header.Get("Mcp-Protocol-Version") == "" {
		x.era = legacy
	}
	if x.era == legacy {
		return e.admitLegacy(x)
	}
	if response := x.request.Response; response != nil {
		x.request.ID = response.ID
		return rule{}, wire.InvalidRequest("method must be a string: only requests and notifications are accepted")
	}
	if x.request.IsNotification() {
		if !strings.HasPrefix(x.request.Method, "notifications/") {
			return rule{}, wire.InvalidRequest("the request has no id")
		}
		return rule{}, nil
	}
	invalid := x.request.ReadParams()
	if failure := checkVersion(x); failure != nil {
		return rule{}, failure
	}
	if failure := checkMethodHeader(x); failure != nil {
		return rule{}, failure
	}
	rule, ok := e.rules[x.request.Method]
	if !ok {
		return rule, wire.MethodNotFound()
	}
	x.label = x.request.Method
	if invalid != nil {
		return rule, invalid
	}
	if rule.capability == tasksCapability && !x.request.Params.Meta.Tasks {
		return rule, wire.MissingTasksCapability()
	}
	if failure := e.checkName(x, rule.name); failure != nil {
		return rule, failure
	}
	return rule, e.permit(x, rule)
}

func (e *Endpoint) checkTarget(x *exchange) *wire.Error {
	if !e.served(x.namespace) {
		return status(http.StatusNotFound, "there is no endpoint for this namespace")
	}
	switch {
	case x.http.Method == http.MethodPost, x.http.Method == http.MethodGet && x.era == legacy:
	case x.era == legacy: // no session can be ended: none is kept
		x.w.Header().Set("Allow", "GET, POST")
		return status(http.StatusMethodNotAllowed, "only GET and POST are supported")
	default:
		x.w.Header().Set("Allow", http.MethodPost)
		return status(http.StatusMethodNotAllowed, "only POST is supported")
	}
	if !e.hosts.allow(x.http.Host) {
		e.deny(x, "", "Host header not allowed")
		return status(http.StatusForbidden, "the Host header is not allowed")
	}
	return nil
}

func (e *Endpoint) checkOrigin(x *exchange) *wire.Error {
	request := *x.http
	request.Method = http.MethodPost // the check lets every GET pass, and here it opens a stream
	if err := e.origins.Check(&request); err != nil {
		e.deny(x, "", "cross-origin request")
		return status(http.StatusForbidden, "cross-origin requests are not allowed")
	}
	return nil
}

func checkMedia(x *exchange) *wire.Error {
	if x.http.Method == http.MethodGet {
		if _, stream := accepted(x.http); !stream {
			return status(http.StatusBadRequest, "Accept must contain text/event-stream")
		}
		return nil
	}
	if media, _, err := mime.ParseMediaType(x.http.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return status(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	if json, stream := accepted(x.http); !json || !stream {
		return status(http.StatusBadRequest, "Accept must contain both application/json and text/event-stream")
	}
	return nil
}

// accepted says which of the two kinds of answers the client accepts.
func accepted(r *http.Request) (json, stream bool) {
	for _, value := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(value, ",") {
			accepted, _, _ = strings.Cut(accepted, ";")
			switch strings.ToLower(strings.TrimSpace(accepted)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				stream = true
			case "*/*":
				json, stream = true, true
			}
		}
	}
	return json, stream
}

// checkVersion compares the MCP-Protocol-Version header with the body and with what is supported.
func checkVersion(x *exchange) *wire.Error {
	header, declared := x.http.Header.Get("Mcp-Protocol-Version"), x.request.Params.Meta.Version
	switch {
	case header == "":
		return wire.HeaderMismatch("the header MCP-Protocol-Version is missing")
	case declared != "" && declared != header:
		return wire.HeaderMismatch("the header MCP-Protocol-Version does not match params._meta." + wire.MetaProtocolVersion)
	case header != wire.ProtocolVersion:
		return wire.UnsupportedVersion(header)
	}
	return nil
}

func checkMethodHeader(x *exchange) *wire.Error {
	switch x.http.Header.Get("Mcp-Method") {
	case "":
		return wire.HeaderMismatch("the header Mcp-Method is missing")
	case x.request.Method:
		return nil
	}
	return wire.HeaderMismatch("the header Mcp-Method does not match the method of the body")
}

func (e *Endpoint) checkName(x *exchange, name nameHeader) *wire.Error {
	raw, parameter := name.parameter(&x.request.Params)
	if parameter == "" {
		return nil
	}
	value, ok := wire.Text(raw)
	if !ok {
		return wire.InvalidParams(parameter + " must be a string")
	}
	header := x.http.Header.Get("Mcp-Name")
	if header == "" {
		if name == taskID && e.TolerateMissingName {
			return nil
		}
		return wire.HeaderMismatch("the header Mcp-Name is missing")
	}
	if decoded, ok := wire.DecodeHeader(header); !ok || decoded != value {
		return wire.HeaderMismatch("the header Mcp-Name does not match " + parameter)
	}
	return nil
}

// status is an error of HTTP rather than of a method.
func status(code int, message string) *wire.Error {
	failure := wire.InvalidRequest(message)
	failure.Status = code
	return failure
}
