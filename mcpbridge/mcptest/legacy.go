package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// LegacyVersion is the newest of the older protocol versions.
const LegacyVersion = "2025-11-25"

// Session is a client that has initialized with an older protocol version.
type Session struct {
	Client
	// ID of the session and Version that the server chose.
	ID, Version string
	// Initialized is the answer to initialize.
	Initialized *Response
}

// Initialize begins a session.
func (c Client) Initialize(t testing.TB, version string, capabilities map[string]any) *Session {
	t.Helper()
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	s := &Session{Client: c}
	s.Initialized = s.Call(t, "initialize", map[string]any{
		"protocolVersion": version, "capabilities": capabilities, "clientInfo": map[string]any{"name": "test", "version": "1"}})
	var result struct{ ProtocolVersion string }
	if s.Initialized.Error != nil || json.Unmarshal(s.Initialized.Result, &result) != nil {
		t.Fatalf("initialize: HTTP %d with %s", s.Initialized.Status, s.Initialized.Raw)
	}
	s.ID, s.Version = s.Initialized.Header.Get("Mcp-Session-Id"), result.ProtocolVersion
	return s
}

// At is the same session at another URL.
func (s Session) At(url string) *Session {
	s.URL = url
	return &s
}

// Post makes the HTTP request that sends a message.
func (s *Session) Post(ctx context.Context, message map[string]any) (*http.Request, error) {
	message["jsonrpc"] = "2.0"
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	s.sign(request)
	return request, nil
}

func (s *Session) sign(request *http.Request) {
	if s.Version != "" {
		request.Header.Set("Mcp-Protocol-Version", s.Version)
	}
	if s.ID != "" {
		request.Header.Set("Mcp-Session-Id", s.ID)
	}
	if s.Token != "" {
		request.Header.Set("Authorization", "Bearer "+s.Token)
	}
}

// Call sends a request and reads its whole answer.
func (s *Session) Call(t testing.TB, method string, params map[string]any, edits ...func(*http.Request)) *Response {
	t.Helper()
	message := map[string]any{"id": 1, "method": method}
	if params != nil {
		message["params"] = params
	}
	return s.send(t, message, edits...)
}

// Respond sends the response to a request of the server. result is left out when failure is not nil.
func (s *Session) Respond(t testing.TB, id json.RawMessage, result any, failure *Error, edits ...func(*http.Request)) *Response {
	t.Helper()
	message := map[string]any{"id": id, "result": result}
	if failure != nil {
		message = map[string]any{"id": id, "error": map[string]any{"code": failure.Code, "message": failure.Message}}
	}
	return s.send(t, message, edits...)
}

func (s *Session) send(t testing.TB, message map[string]any, edits ...func(*http.Request)) *Response {
	t.Helper()
	request, err := s.Post(t.Context(), message)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(request)
	}
	response, err := s.do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// Open sends a request whose answer is read while it comes.
func (s *Session) Open(t testing.TB, method string, params map[string]any) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := s.Post(ctx, map[string]any{"id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	return s.open(ctx, cancel, t, request)
}

// Get makes the HTTP request that opens the stream for the messages of the server.
func (s *Session) Get(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream")
	s.sign(request)
	return request, nil
}

// Listen opens the stream for the messages of the server.
func (s *Session) Listen(t testing.TB) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := s.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s.open(ctx, cancel, t, request)
}

func (c Client) open(ctx context.Context, leave func(), t testing.TB, request *http.Request) *Stream {
	t.Helper()
	answer, err := c.client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(); _ = answer.Body.Close() })
	if media := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || media != "text/event-stream" {
		raw, err := io.ReadAll(answer.Body)
		t.Fatalf("no stream but HTTP %d, %s: %s, %v", answer.StatusCode, media, raw, err)
	}
	s := &Stream{Header: answer.Header, t: t, events: make(chan event), leave: leave}
	go s.read(ctx, answer.Body)
	return s
}
