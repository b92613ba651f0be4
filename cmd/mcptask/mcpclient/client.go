// Package mcpclient calls an MCP endpoint of the revision 2026-07-28 that may answer tool calls with tasks
// (the extension io.modelcontextprotocol/tasks). It speaks the Streamable HTTP transport: one POST for each request,
// answered with one JSON object or with a stream of events.
//
// It takes no part in multi round-trip requests, subscribes to nothing but tasks, and sends no Mcp-Param headers: a tool
// whose inputSchema has x-mcp-header cannot be called with it.
package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// ProtocolVersion is the revision of MCP that is spoken.
	ProtocolVersion = "2026-07-28"
	// TasksExtension is the name of the tasks extension.
	TasksExtension = "io.modelcontextprotocol/tasks"
)

// Options say how an endpoint is called.
type Options struct {
	// Token gives the bearer token of each request; nil, and an empty token, send none.
	Token func(ctx context.Context) (string, error)
	// HTTPClient sends the requests. It should have no Timeout: a call may wait long for its result.
	HTTPClient *http.Client
	// Tasks declares the tasks extension: calls may be answered with a task.
	Tasks bool
	// Capabilities are further client capabilities, by their names.
	Capabilities map[string]any
	// Name and Version introduce the client; "mcptask" and "dev" when empty.
	Name, Version string
	// Retry is how Wait goes on after requests that were not answered. The default is 8 requests within 32 seconds.
	Retry wait.Backoff
}

// Client calls one endpoint. It may be used by several goroutines at once.
type Client struct {
	endpoint string
	options  Options
	lastID   atomic.Int64
}

// New makes a client of an endpoint, such as http://localhost:8080/mcp/default.
func New(endpoint string, options Options) *Client {
	if options.HTTPClient == nil {
		options.HTTPClient = &http.Client{}
	}
	if options.Name == "" {
		options.Name = "mcptask"
	}
	if options.Version == "" {
		options.Version = "dev"
	}
	if options.Retry.Steps == 0 {
		options.Retry = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Steps: 7}
	}
	return &Client{endpoint: endpoint, options: options}
}

// Endpoint is the URL that is called.
func (c *Client) Endpoint() string { return c.endpoint }

// Discovery is what a server says about itself (Discovery, DiscoverResult).
type Discovery struct {
	SupportedVersions []string        `json:"supportedVersions"`
	Capabilities      json.RawMessage `json:"capabilities"`
	Instructions      string          `json:"instructions"`
}

// Discover asks the server what it is.
func (c *Client) Discover(ctx context.Context) (*Discovery, error) {
	result := &Discovery{}
	if err := c.call(ctx, request{method: "server/discover"}, result); err != nil {
		return nil, err
	}
	return result, nil
}

// Tool is a tool that the server offers. The schemas are as they were sent.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
}

// ListTools lists all tools, however many pages they fill, in the server's order.
func (c *Client) ListTools(ctx context.Context) ([]Tool, error) {
	tools := []Tool{}
	params := map[string]any{}
	for seen := map[string]bool{}; ; {
		var page struct {
			Tools      []Tool `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := c.call(ctx, request{method: "tools/list", params: params}, &page); err != nil {
			return nil, err
		}
		tools = append(tools, page.Tools...)
		if page.NextCursor == "" {
			return tools, nil
		}
		if seen[page.NextCursor] {
			return nil, fmt.Errorf("tools/list: the server gave the cursor %q twice", page.NextCursor)
		}
		seen[page.NextCursor] = true
		params = map[string]any{"cursor": page.NextCursor}
	}
}

// CallOptions are what a call may say besides its arguments.
type CallOptions struct {
	// ProgressToken asks for progress notifications: a string or an integer, unique among the calls under way.
	ProgressToken any
	// Progress is called with each progress notification, one at a time.
	Progress func(Progress)
	// Meta are further fields of params._meta.
	Meta map[string]any
}

// Progress is a progress notification (Progress, Progress Flow).
type Progress struct {
	Progress float64 `json:"progress"`
	// Total is 0 when it is not known.
	Total   float64 `json:"total"`
	Message string  `json:"message"`
}

func (o *CallOptions) notify(m *message) error {
	if m.Method != "notifications/progress" || o.Progress == nil {
		return nil
	}
	var p Progress
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return fmt.Errorf("reading a progress notification: %w", err)
	}
	o.Progress(p)
	return nil
}

// CallResult is the answer to a call: either a task or a result.
type CallResult struct {
	Task   *Task
	Result *ToolResult
}

// CallTool calls a tool. The arguments are a JSON object; nil stands for none.
//
// A call is not repeated by itself, even if the answer was lost: the tool may have run.
func (c *Client) CallTool(ctx context.Context, name string, arguments json.RawMessage, options CallOptions) (*CallResult, error) {
	params := map[string]any{"name": name}
	if len(arguments) > 0 {
		params["arguments"] = arguments
	}
	meta := map[string]any{}
	for key, value := range options.Meta {
		meta[key] = value
	}
	if options.ProgressToken != nil {
		meta["progressToken"] = options.ProgressToken
	}
	var raw json.RawMessage
	r := request{method: "tools/call", name: name, params: params, meta: meta, notify: options.notify}
	if err := c.call(ctx, r, &raw); err != nil {
		return nil, err
	}
	return readCallResult(raw)
}

// readCallResult tells the shapes of an answer apart by their resultType (tasks, Polymorphic Results).
func readCallResult(raw json.RawMessage) (*CallResult, error) {
	var head struct {
		ResultType string `json:"resultType"`
	}
	answer := &CallResult{}
	err := json.Unmarshal(raw, &head)
	switch {
	case err != nil:
	case head.ResultType == "task":
		answer.Task = &Task{}
		err = json.Unmarshal(raw, answer.Task)
	case head.ResultType == "complete" || head.ResultType == "":
		answer.Result = &ToolResult{}
		err = json.Unmarshal(raw, answer.Result)
	case head.ResultType == "input_required":
		var asked struct{ InputRequests map[string]InputRequest }
		if err = json.Unmarshal(raw, &asked); err == nil {
			names := strings.Join(slices.Sorted(maps.Keys(asked.InputRequests)), ", ")
			return nil, fmt.Errorf("tools/call: the tool asks before it starts; give the answers as its arguments, each an object: %s", names)
		}
	default:
		return nil, fmt.Errorf("tools/call: the server answered with the unknown resultType %q", head.ResultType)
	}
	if err != nil {
		return nil, fmt.Errorf("tools/call: reading the result: %w", err)
	}
	return answer, nil
}
