// Package mcptest is an MCP client for tests: it writes what a test asks for, right or wrong, and reads all that comes back. Secrets
// stand in for the cluster's.
package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Version is the protocol version of the requests.
const Version = "2026-07-28"

// Client calls one endpoint.
type Client struct {
	// URL of the endpoint.
	URL string
	// Token is sent as a bearer token, unless it is empty.
	Token string
	// Tasks declares the tasks extension.
	Tasks bool
	// Elicitation declares these modes, e.g. form and url; none at all when nil.
	Elicitation []string
	// HTTP sends the requests; http.DefaultClient when nil.
	HTTP *http.Client
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Message is a JSON-RPC message.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// Response is an HTTP response and the message that it ends with.
type Response struct {
	Message
	Status        int
	Header        http.Header
	Notifications []Message
	// Comments are the comment lines of a stream.
	Comments int
	// Raw is the body.
	Raw string
}

// Request makes the HTTP request of a call. Edits change it before it is sent.
func (c Client) Request(ctx context.Context, method string, params map[string]any) (*http.Request, error) {
	capabilities := map[string]any{}
	if c.Tasks {
		capabilities["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
	}
	if c.Elicitation != nil {
		modes := map[string]any{}
		for _, mode := range c.Elicitation {
			modes[mode] = map[string]any{}
		}
		capabilities["elicitation"] = modes
	}
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    Version,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
	all := map[string]any{"_meta": meta}
	for name, value := range params {
		if name == "_meta" {
			for key, value := range value.(map[string]any) {
				meta[key] = value
			}
			continue
		}
		all[name] = value
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": all})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Protocol-Version", Version)
	request.Header.Set("Mcp-Method", method)
	for _, name := range []string{"taskId", "name"} {
		if value, ok := params[name].(string); ok {
			request.Header.Set("Mcp-Name", value)
		}
	}
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return request, nil
}

// Call sends a request and reads its whole answer.
func (c Client) Call(t testing.TB, method string, params map[string]any, edits ...func(*http.Request)) *Response {
	t.Helper()
	request, err := c.Request(t.Context(), method, params)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(request)
	}
	response, err := c.do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// Body replaces the body of a request.
func Body(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(body)), int64(len(body)), nil
	}
}

// Header sets a header of a request, or removes it when the value is empty.
func Header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

// Do sends a request and reads its whole answer.
func Do(request *http.Request) (*Response, error) { return Client{}.do(request) }

func (c Client) do(request *http.Request) (*Response, error) {
	answer, err := c.client().Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return Read(answer.StatusCode, answer.Header, answer.Body)
}

func (c Client) client() *http.Client {
	if c.HTTP == nil {
		return http.DefaultClient
	}
	return c.HTTP
}

// Read reads an answer.
func Read(status int, header http.Header, body io.Reader) (*Response, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	response := &Response{Status: status, Header: header, Raw: string(raw)}
	if !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		if len(raw) == 0 {
			return response, nil
		}
		if err := json.Unmarshal(raw, &response.Message); err != nil {
			return nil, fmt.Errorf("HTTP %d with %q: %w", status, raw, err)
		}
		return response, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), ":") {
			response.Comments++
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var message Message
		if err := json.Unmarshal([]byte(data), &message); err != nil {
			return nil, fmt.Errorf("event %q: %w", data, err)
		}
		if message.Method != "" {
			response.Notifications = append(response.Notifications, message)
		} else {
			response.Message = message
		}
	}
	return response, lines.Err()
}
