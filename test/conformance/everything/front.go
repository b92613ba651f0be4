package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	sessionHeader = "Mcp-Session-Id"
	maxBody       = 1 << 20
)

// front puts the fixtures behind the bridge. Every request goes to the bridge, whose answer is what the client gets,
// but for what the bridge says it does not have (a method, a tool, the request that a client responds to) and the
// fixtures do: that they answer. And the lists of what there is show both.
type front struct {
	bridge http.Handler
	modern http.Handler // the fixtures for 2026-07-28
	legacy http.Handler // the fixtures for older revisions, with sessions of their own
	tools  map[string]json.RawMessage
	order  []string // of the tools

	mu       sync.Mutex
	sessions map[string]string // of the fixtures, by the bridge's
	passed   map[string]int    // what the fixtures answered
}

func newFront(bridge http.Handler, fixtures *mcp.Server, tools []*mcp.Tool) (*front, error) {
	serve := func(stateless bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return fixtures }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	}
	f := &front{bridge: bridge, modern: serve(true), legacy: serve(false), tools: map[string]json.RawMessage{},
		sessions: map[string]string{}, passed: map[string]int{}}
	for _, tool := range tools {
		raw, err := json.Marshal(tool)
		if err != nil {
			return nil, fmt.Errorf("fixture %s: %w", tool.Name, err)
		}
		f.tools[tool.Name], f.order = raw, append(f.order, tool.Name)
	}
	return f, nil
}

// message is what of a JSON-RPC message decides where it goes.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var sent message
	_ = json.Unmarshal(body, &sent) // what is no message is the bridge's to refuse
	first := &held{w: w, status: http.StatusOK}
	f.bridge.ServeHTTP(first, with(r, body))
	if first.streams {
		return
	}
	var got message
	_ = json.Unmarshal(first.body.Bytes(), &got) // there may be no body
	modern := r.Header.Get("Mcp-Protocol-Version") == wire.ProtocolVersion
	switch {
	case f.has(modern, &sent, first.status, &got):
		f.pass(w, r, body, modern, &sent)
		return
	case got.Result == nil:
	case sent.Method == "server/discover":
		first.merge("capabilities", fixtureCapabilities[true])
	case sent.Method == "initialize":
		f.open(w.Header().Get(sessionHeader), body)
		first.merge("capabilities", fixtureCapabilities[false])
	case sent.Method == "tools/list":
		first.append("tools", f.order, f.tools)
	}
	first.release()
}

// has says whether the fixtures have what the bridge says it does not have.
func (f *front) has(modern bool, sent *message, status int, got *message) bool {
	if sent.Method == "" { // a response to a request that was not the bridge's
		return !modern && sent.ID != nil && status == http.StatusBadRequest
	}
	if got.Error == nil {
		return false
	}
	switch {
	case got.Error.Code == wire.CodeMethodNotFound && sent.Method != "tools/call":
		inModern, known := fixtureMethods[sent.Method]
		return known && (inModern || !modern)
	case got.Error.Code == wire.CodeInvalidParams && strings.HasPrefix(got.Error.Message, "Unknown tool: "):
		return f.tools[sent.Params.Name] != nil
	}
	return false
}

// pass lets the fixtures answer.
func (f *front) pass(w http.ResponseWriter, r *http.Request, body []byte, modern bool, sent *message) {
	what := strings.TrimSpace(sent.Method + " " + sent.Params.Name)
	if what == "" {
		what = "response"
	}
	f.mu.Lock()
	f.passed[what]++
	session := f.sessions[r.Header.Get(sessionHeader)]
	f.mu.Unlock()
	clear(w.Header())
	request := with(r, body)
	if modern {
		f.modern.ServeHTTP(w, request)
		return
	}
	request.Header.Set(sessionHeader, session)
	f.legacy.ServeHTTP(&unnamed{w}, request)
}

// open begins a session with the fixtures beside one with the bridge, with the client's own words.
func (f *front) open(session string, initialize []byte) {
	post := func(body []byte, session string) http.Header {
		request, _ := http.NewRequest(http.MethodPost, "http://localhost/", bytes.NewReader(body)) // always a request
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			request.Header.Set(sessionHeader, session)
		}
		answer := &held{status: http.StatusOK, header: http.Header{}}
		f.legacy.ServeHTTP(answer, request)
		return answer.header
	}
	theirs := post(initialize, "").Get(sessionHeader)
	post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), theirs)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[session] = theirs
}

// answered is how often the fixtures answered what.
func (f *front) answered() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]int{}
	for what, n := range f.passed {
		all[what] = n
	}
	return all
}

func with(r *http.Request, body []byte) *http.Request {
	request := r.Clone(r.Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return request
}
