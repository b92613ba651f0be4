package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func returns(content ...mcp.Content) work {
	return func(context.Context, *job) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

func says(words string) work { return returns(&mcp.TextContent{Text: words}) }

func fails(words string) work {
	return func(context.Context, *job) (*mcp.CallToolResult, error) {
		result := text("%s", words)
		result.IsError = true
		return result, nil
	}
}

func embedded(uri string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "This is an embedded resource content."}}
}

func reportsProgress(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
	for _, current := range []int{0, 50, 100} {
		j.progress(current, 100)
		j.sleep(ctx, 50*time.Millisecond)
	}
	return text("Done."), nil
}

// greetsAnswer greets whom the question before the task brought to light.
func greetsAnswer(_ context.Context, j *job) (*mcp.CallToolResult, error) {
	who, _ := j.arguments["user_name"].(map[string]any)
	return text("Hello, %v!", who["name"]), nil
}

func confirms(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
	got, err := j.ask(ctx, question{"confirm", "Please confirm", okPlease})
	return text("state-ok: %v", got["confirm"].Action), err
}

func asksForColor(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
	got, err := j.ask(ctx, question{"step2", "Step 2: What is your favorite color?", colorPlease})
	return text("%v likes %v", j.arguments["step1"], got["step2"].Content["color"]), err
}

func asksUser(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
	got, err := j.ask(ctx, question{"user", fmt.Sprint(j.arguments["message"]),
		`{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username","email"]}`})
	return text("User response: %v", got["user"]), err
}

func asksFor(form string) work {
	return func(ctx context.Context, j *job) (*mcp.CallToolResult, error) {
		got, err := j.ask(ctx, question{"form", "Please fill in this form", form})
		return text("User response: %v", got["form"]), err
	}
}

const formWithDefaults = `{"type":"object","properties":{
	"name":{"type":"string","default":"John Doe"},
	"age":{"type":"integer","default":30},
	"score":{"type":"number","default":95.5},
	"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
	"verified":{"type":"boolean","default":true}}}`

const formWithChoices = `{"type":"object","properties":{
	"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
	"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
	"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
	"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
	"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`

// schema202012 has what the revisions of the protocol want kept in a tool's schema (SEP-1613, SEP-2106).
const schema202012 = `{
	"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
	"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
	"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
		"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
	"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
	"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
	"then":{"required":["phone"]},"else":{"required":["email"]},
	"additionalProperties":false}`

// The smallest PNG and the shortest WAV.
var (
	pixel   = decoded("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	silence = decoded("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
)

func decoded(constant string) []byte {
	data, err := base64.StdEncoding.DecodeString(constant)
	if err != nil {
		panic(err)
	}
	return data
}
