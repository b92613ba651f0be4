package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fixtureMethods are the methods that a bridge does not have: by whether the revision 2026-07-28 has them too.
var fixtureMethods = map[string]bool{
	"prompts/list": true, "prompts/get": true, "resources/list": true, "resources/read": true, "resources/templates/list": true,
	"completion/complete": true, "logging/setLevel": false, "resources/subscribe": false, "resources/unsubscribe": false,
}

// fixtureCapabilities are those of the methods, as server/discover and initialize show them.
var fixtureCapabilities = map[bool]map[string]json.RawMessage{
	true:  {"prompts": json.RawMessage(`{}`), "resources": json.RawMessage(`{}`), "completions": json.RawMessage(`{}`)},
	false: {"prompts": json.RawMessage(`{}`), "resources": json.RawMessage(`{"subscribe":true}`), "completions": json.RawMessage(`{}`), "logging": json.RawMessage(`{}`)},
}

// newFixtures makes the server of what the suite wants to see and a bridge has no notion of: prompts, resources,
// completions, log messages, sampling and roots. It is the SDK's alone.
func newFixtures() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "fixtures", Version: "test"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for _, t := range []struct {
		name, description string
		handler           mcp.ToolHandler
	}{
		{"test_tool_with_logging", "Sends log messages.", logs},
		{"test_sampling", "Asks the client's model, in the middle of a call.", samples},
		{"test_missing_capability", "Needs a client with a model.", needsSampling},
		{"test_input_required_result_sampling", "Asks the client's model.", asksInBand("sampling")},
		{"test_input_required_result_list_roots", "Asks for the client's roots.", asksInBand("roots")},
		{"test_input_required_result_multiple_inputs", "Asks the user, the model and for the roots.", asksInBand("elicitation", "sampling", "roots")},
		{"test_input_required_result_capabilities", "Asks for what the client declares.", asksWhatClientCan},
	} {
		server.AddTool(&mcp.Tool{Name: t.name, Description: t.description, InputSchema: json.RawMessage(`{"type":"object"}`)}, t.handler)
	}
	addResources(server)
	addPrompts(server)
	return server
}

func logs(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: line}); err != nil {
			return nil, err
		}
	}
	return text("Logged."), nil
}

func samples(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	result, err := r.Session.CreateMessage(ctx, samplingRequest())
	if err != nil {
		return nil, fmt.Errorf("sampling: %w", err)
	}
	return text("LLM response: %v", result.Content), nil
}

func needsSampling(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if can := r.ClientCapabilities(); can != nil && can.Sampling != nil {
		return text("Done."), nil
	}
	return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "Missing required client capability",
		Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`)}
}

func samplingRequest() *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100,
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "What is the capital of France?"}}}}
}

// inBand are questions of each kind, and the results that answer them.
var inBand = map[string]mcp.InputRequest{
	"elicitation": &mcp.ElicitParams{Message: "What is your name?", RequestedSchema: json.RawMessage(namePlease)},
	"sampling":    samplingRequest(),
	"roots":       &mcp.ListRootsParams{},
}

func asksInBand(kinds ...string) mcp.ToolHandler {
	return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		open := mcp.InputRequestMap{}
		for _, kind := range kinds {
			if _, answered := r.Params.InputResponses[kind]; !answered {
				open[kind] = inBand[kind]
			}
		}
		if len(open) > 0 {
			return &mcp.CallToolResult{InputRequests: open, RequestState: strings.Join(kinds, "+")}, nil
		}
		return text("Answered: %s.", strings.Join(kinds, ", ")), nil
	}
}

func asksWhatClientCan(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var kinds []string
	if can := r.ClientCapabilities(); can != nil && can.Elicitation != nil {
		kinds = append(kinds, "elicitation")
	}
	if can := r.ClientCapabilities(); can != nil && can.Sampling != nil {
		kinds = append(kinds, "sampling")
	}
	return asksInBand(kinds...)(ctx, r)
}
