package mcpclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// maxAnswer bounds what is read of one answer, or of one event, in bytes.
const maxAnswer = 64 << 20

// request is a JSON-RPC request.
type request struct {
	method string
	// name is what the Mcp-Name header says; none when empty.
	name   string
	params map[string]any
	// meta are fields of params._meta besides those that every request has.
	meta map[string]any
	// notify is called with each notification that precedes the response; nil passes over them. Its error ends the call.
	notify func(*message) error
}

// message is a JSON-RPC response or notification.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// call sends a request and reads the result of its answer into result. Errors name the method.
func (c *Client) call(ctx context.Context, r request, result any) error {
	id := c.lastID.Add(1)
	post, err := c.post(ctx, id, r)
	if err != nil {
		return fmt.Errorf("%s: %w", r.method, err)
	}
	answer, err := c.options.HTTPClient.Do(post)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", r.method, ErrNoAnswer, err)
	}
	defer answer.Body.Close()
	raw, err := read(answer, id, r.notify)
	if err != nil {
		return fmt.Errorf("%s: %w", r.method, err)
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("%s: reading the result: %w", r.method, err)
	}
	return nil
}

// post makes the HTTP request (Streamable HTTP, Sending Messages).
func (c *Client) post(ctx context.Context, id int64, r request) (*http.Request, error) {
	params := map[string]any{}
	for key, value := range r.params {
		params[key] = value
	}
	params["_meta"] = c.meta(r.meta)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]any{"jsonrpc": "2.0", "id": id, "method": r.method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("the request cannot be written as JSON: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, &body)
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	post.Header.Set("MCP-Protocol-Version", ProtocolVersion)
	post.Header.Set("Mcp-Method", r.method)
	if r.name != "" {
		post.Header.Set("Mcp-Name", headerValue(r.name))
	}
	if c.options.Token == nil {
		return post, nil
	}
	token, err := c.options.Token(ctx)
	if err != nil {
		return nil, err
	}
	if token != "" {
		post.Header.Set("Authorization", "Bearer "+token)
	}
	return post, nil
}

// meta is params._meta: what every request declares (Overview, _meta), and more.
func (c *Client) meta(more map[string]any) map[string]any {
	capabilities := map[string]any{}
	for name, value := range c.options.Capabilities {
		capabilities[name] = value
	}
	if c.options.Tasks {
		extensions := map[string]any{TasksExtension: struct{}{}}
		if others, ok := capabilities["extensions"].(map[string]any); ok {
			for name, value := range others {
				extensions[name] = value
			}
		}
		capabilities["extensions"] = extensions
	}
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    ProtocolVersion,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": c.options.Name, "version": c.options.Version},
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
	for key, value := range more {
		meta[key] = value
	}
	return meta
}

// headerValue is a value as a header can carry it (Streamable HTTP, Value Encoding).
func headerValue(value string) string {
	const prefix, suffix = "=?base64?", "?="
	plain := strings.TrimSpace(value) == value && !(strings.HasPrefix(value, prefix) && strings.HasSuffix(value, suffix))
	for _, c := range []byte(value) {
		plain = plain && (c >= 0x20 && c <= 0x7e || c == '\t')
	}
	if plain {
		return value
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(value)) + suffix
}

// read reads the answer to the request with this id: its result, or an error.
func read(answer *http.Response, id int64, notify func(*message) error) (json.RawMessage, error) {
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // "" when it is unreadable
	if media == "text/event-stream" {
		return readStream(answer, id, notify)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%w: reading it: %w", ErrNoAnswer, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	var m message
	if err := json.Unmarshal(body, &m); err == nil && (m.Error != nil || m.Result != nil) {
		return m.settle(answer.StatusCode, id)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, &RPCError{HTTPStatus: answer.StatusCode}
	}
	return nil, fmt.Errorf("HTTP %d with a body that is no JSON-RPC response (Content-Type %q): is this an MCP endpoint?",
		answer.StatusCode, answer.Header.Get("Content-Type"))
}

// settle is the outcome of a response.
func (m *message) settle(status int, id int64) (json.RawMessage, error) {
	if m.Error != nil {
		m.Error.HTTPStatus = status
		return nil, m.Error
	}
	if string(m.ID) != fmt.Sprint(id) {
		return nil, fmt.Errorf("the server answered another request: its id is %.64s, not %d", m.ID, id)
	}
	return m.Result, nil
}
