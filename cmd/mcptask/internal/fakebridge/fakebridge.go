// Package fakebridge is an MCP endpoint for tests. It holds every request to the protocol's rules and gives the answers
// that a test put into it.
package fakebridge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Request is what a client sent.
type Request struct {
	Method string
	Header http.Header
	Path   string
	Params struct {
		Name          string          `json:"name"`
		TaskID        string          `json:"taskId"`
		Cursor        string          `json:"cursor"`
		Arguments     json.RawMessage `json:"arguments"`
		Notifications json.RawMessage `json:"notifications"`
		Responses     json.RawMessage `json:"inputResponses"`
		Meta          struct {
			Version       string          `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities  json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
			ProgressToken json.RawMessage `json:"progressToken"`
			Key           string          `json:"mcptask.dev/idempotencyKey"`
		} `json:"_meta"`
	}
}

// Tasks says whether the request declares the tasks extension.
func (r *Request) Tasks() bool {
	var capabilities struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(r.Params.Meta.Capabilities, &capabilities) // checked before
	return string(capabilities.Extensions["io.modelcontextprotocol/tasks"]) == "{}"
}

// Answer writes the answer to a request.
type Answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage)

// Bridge is the endpoint. Its methods may be called while it serves.
type Bridge struct {
	// URL of the server; every path is an endpoint.
	URL string

	t        *testing.T
	mu       sync.Mutex
	answers  map[string][]Answer
	requests []*Request
}

// New starts a Bridge that ends with the test.
func New(t *testing.T) *Bridge {
	b := &Bridge{t: t, answers: map[string][]Answer{}}
	server := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(server.Close)
	b.URL = server.URL
	return b
}

// On sets the answers to a method, one after the other. The last one is given again and again.
func (b *Bridge) On(method string, answers ...Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[method] = answers
}

// Requests are the requests of a method so far.
func (b *Bridge) Requests(method string) []*Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := []*Request{}
	for _, r := range b.requests {
		if r.Method == method {
			found = append(found, r)
		}
	}
	return found
}

func (b *Bridge) serve(w http.ResponseWriter, r *http.Request) {
	var envelope struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	request := &Request{Header: r.Header, Path: r.URL.Path}
	if err := json.Unmarshal(body, &envelope); err != nil {
		b.t.Errorf("the body is no JSON object: %v: %s", err, body)
	} else if err := json.Unmarshal(envelope.Params, &request.Params); err != nil {
		b.t.Errorf("params: %v: %s", err, envelope.Params)
	}
	request.Method = envelope.Method
	for _, fault := range faults(r, request, envelope.JSONRPC, envelope.ID) {
		b.t.Errorf("%s: %s", request.Method, fault)
	}
	b.mu.Lock()
	b.requests = append(b.requests, request)
	answers := b.answers[request.Method]
	if len(answers) > 1 {
		b.answers[request.Method] = answers[1:]
	}
	b.mu.Unlock()
	if len(answers) == 0 {
		Error(http.StatusNotFound, -32601, "Method not found")(w, r, envelope.ID)
		return
	}
	answers[0](w, r, envelope.ID)
}

// faults are the rules of the protocol that the request breaks.
func faults(r *http.Request, request *Request, version string, id json.RawMessage) []string {
	found := []string{}
	want := func(what, got, want string) {
		if got != want {
			found = append(found, fmt.Sprintf("%s is %q, not %q", what, got, want))
		}
	}
	want("the HTTP method", r.Method, http.MethodPost)
	want("jsonrpc", version, "2.0")
	want("Content-Type", r.Header.Get("Content-Type"), "application/json")
	want("Accept", r.Header.Get("Accept"), "application/json, text/event-stream")
	want("MCP-Protocol-Version", r.Header.Get("MCP-Protocol-Version"), "2026-07-28")
	want("the protocol version in _meta", request.Params.Meta.Version, "2026-07-28")
	want("Mcp-Method", r.Header.Get("Mcp-Method"), request.Method)
	want("Mcp-Name", decode(r.Header.Get("Mcp-Name")), request.Params.Name+request.Params.TaskID)
	if len(id) == 0 {
		found = append(found, "there is no id")
	}
	if !strings.HasPrefix(string(request.Params.Meta.Capabilities), "{") {
		found = append(found, "there are no client capabilities in _meta")
	}
	if strings.HasPrefix(request.Method, "tasks/") && !request.Tasks() {
		found = append(found, "the tasks extension is not declared")
	}
	return found
}

func decode(header string) string {
	encoded, ok := strings.CutPrefix(header, "=?base64?")
	if !ok {
		return header
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
	if err != nil {
		return header
	}
	return string(text)
}
