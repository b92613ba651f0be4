package endpoint

import (
	"net/http"
	"strings"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// era is which of the two shapes of MCP a request speaks: since 2026-07-28 each request says everything about itself;
// before, a session began with initialize. Both reach the same tasks.
type era int

const (
	modern era = iota
	legacy
)

// eraOf says which era the headers of a request belong to. What fits neither is modern: there it is refused.
func eraOf(r *http.Request) era {
	version := r.Header.Get("Mcp-Protocol-Version")
	if wire.Legacy(version) || version == "" && r.Header.Get(sessionHeader) != "" {
		return legacy
	}
	return modern
}

// legacyMethods are the methods that there are before 2026-07-28.
func legacyMethods() map[string]rule {
	return map[string]rule{
		"initialize":   {noCapability, noName, serverOnly, (*Endpoint).serveInitialize},
		"ping":         {noCapability, noName, serverOnly, (*Endpoint).servePing},
		"tools/list":   {anySession, noName, callableTools, (*Endpoint).serveLegacyTools},
		"tools/call":   {anySession, noName, calledTool, (*Endpoint).serveLegacyCall},
		"tasks/get":    {taskSession, noName, ownTask, (*Endpoint).serveLegacyGet},
		"tasks/list":   {listSession, noName, ownTasks, (*Endpoint).serveLegacyList},
		"tasks/result": {taskSession, noName, ownTask, (*Endpoint).serveLegacyResult},
		"tasks/cancel": {taskSession, noName, ownTask, (*Endpoint).serveLegacyCancel},
	}
}

// Two things that older clients send are no requests, and have rules all the same.
var (
	// streamRule is for the GET that opens a stream for messages of the server.
	streamRule = rule{anySession, noName, ownTasks, (*Endpoint).serveLegacyStream}
	// responseRule is for a client's response to a question.
	responseRule = rule{anySession, noName, ownTask, (*Endpoint).serveResponse}
)

// admitLegacy checks a request of an older revision that is known to come from somebody.
func (e *Endpoint) admitLegacy(x *exchange) (rule, *wire.Error) {
	r := x.request
	switch {
	case x.http.Method == http.MethodGet:
		x.label = "stream"
		return e.admitUnder(streamRule, x)
	case r.Response != nil:
		x.label = "response"
		return e.admitResponse(x)
	case r.IsNotification():
		if !strings.HasPrefix(r.Method, "notifications/") {
			return rule{}, wire.InvalidRequest("the request has no id")
		}
		return rule{}, e.checkSession(x, anySession)
	}
	invalid := r.ReadLegacyParams()
	version := x.http.Header.Get("Mcp-Protocol-Version")
	if declared := r.Params.Meta.Version; declared != "" && declared != version {
		return rule{}, wire.HeaderMismatch("the header MCP-Protocol-Version does not match params._meta." + wire.MetaProtocolVersion)
	}
	rule, ok := e.legacyRules[r.Method]
	if !ok {
		return rule, wire.MethodNotFound()
	}
	x.label = r.Method
	if invalid != nil {
		return rule, invalid
	}
	return e.admitUnder(rule, x)
}

func (e *Endpoint) admitUnder(rule rule, x *exchange) (rule, *wire.Error) {
	if failure := e.checkSession(x, rule.capability); failure != nil {
		return rule, failure
	}
	return rule, e.permit(x, rule)
}

// serveInitialize begins a session (2025-11-25, Lifecycle, Initialization).
func (e *Endpoint) serveInitialize(x *exchange) {
	asked, failure := x.request.ReadInitialization()
	if failure != nil {
		x.fail(failure)
		return
	}
	version := wire.Version20251125
	if wire.Legacy(asked.Version) {
		version = asked.Version
	}
	id, err := e.sealSession(x, version, asked.Capabilities)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	result, err := wire.InitializeResult(version, e.Server, !x.principal.Anonymous())
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	x.w.Header().Set(sessionHeader, id)
	x.result(result)
}

func (e *Endpoint) servePing(x *exchange) { x.result([]byte(`{}`)) }
