package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

func addResources(server *mcp.Server) {
	read := func(content mcp.ResourceContents) mcp.ResourceHandler {
		return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			content.URI = r.Params.URI
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&content}}, nil
		}
	}
	server.AddResource(&mcp.Resource{Name: "static-text", Description: "A text.", MIMEType: "text/plain", URI: "test://static-text"},
		read(mcp.ResourceContents{MIMEType: "text/plain", Text: "This is the content of the static text resource."}))
	server.AddResource(&mcp.Resource{Name: "static-binary", Description: "An image.", MIMEType: "image/png", URI: "test://static-binary"},
		read(mcp.ResourceContents{MIMEType: "image/png", Blob: pixel}))
	server.AddResource(&mcp.Resource{Name: "watched-resource", Description: "A text to subscribe to.", MIMEType: "text/plain", URI: "test://watched-resource"},
		read(mcp.ResourceContents{MIMEType: "text/plain", Text: "Watched resource content"}))
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "template", Description: "A resource for each id.", MIMEType: "application/json", URITemplate: "test://template/{id}/data"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json",
				Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)}}}, nil
		})
}

func addPrompts(server *mcp.Server) {
	message := func(content mcp.Content) *mcp.PromptMessage {
		return &mcp.PromptMessage{Role: "user", Content: content}
	}
	needs := func(names ...string) []*mcp.PromptArgument {
		var arguments []*mcp.PromptArgument
		for _, name := range names {
			arguments = append(arguments, &mcp.PromptArgument{Name: name, Description: "A test argument.", Required: true})
		}
		return arguments
	}
	add := func(prompt *mcp.Prompt, messages func(*mcp.GetPromptParams) []*mcp.PromptMessage) {
		server.AddPrompt(prompt, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			for _, argument := range prompt.Arguments {
				if r.Params.Arguments[argument.Name] == "" {
					return nil, &jsonrpc.Error{Code: wire.CodeInvalidParams, Message: "missing argument " + argument.Name}
				}
			}
			return &mcp.GetPromptResult{Messages: messages(r.Params)}, nil
		})
	}
	add(&mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt without arguments."}, func(*mcp.GetPromptParams) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{message(&mcp.TextContent{Text: "This is a simple prompt for testing."})}
	})
	add(&mcp.Prompt{Name: "test_prompt_with_arguments", Description: "A prompt with arguments.", Arguments: needs("arg1", "arg2")}, func(p *mcp.GetPromptParams) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{message(&mcp.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", p.Arguments["arg1"], p.Arguments["arg2"])})}
	})
	add(&mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: "A prompt with a resource.", Arguments: needs("resourceUri")}, func(p *mcp.GetPromptParams) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{message(embedded(p.Arguments["resourceUri"])), message(&mcp.TextContent{Text: "Please process the embedded resource above."})}
	})
	add(&mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image."}, func(*mcp.GetPromptParams) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{message(&mcp.ImageContent{Data: pixel, MIMEType: "image/png"}), message(&mcp.TextContent{Text: "Please analyze the image above."})}
	})
	server.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "A prompt that asks first."},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			given, answered := r.Params.InputResponses["user_context"].(*mcp.ElicitResult)
			if !answered {
				return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": &mcp.ElicitParams{
					Message:         "What context should the prompt use?",
					RequestedSchema: json.RawMessage(`{"type":"object","properties":{"context":{"type":"string"}},"required":["context"]}`),
				}}}, nil
			}
			if given.Action != "accept" {
				return nil, errors.New("the user declined")
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{message(&mcp.TextContent{Text: fmt.Sprint(given.Content)})}}, nil
		})
}
