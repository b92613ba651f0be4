// Package tools is what a replica offers: the McpTools of each namespace that are ready, as MCP tools.
package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// defaultMaxWait is the API's own default, for objects that were stored without it.
const defaultMaxWait = 50 * time.Second

// Tool is one generation of an McpTool, its schemas compiled.
type Tool struct {
	// Object is the McpTool, without its Job template.
	Object *v1alpha1.McpTool
	// Input is the schema of the arguments.
	Input *toolschema.Schema
	// Payload is what the payloads of this tool's tasks depend on.
	Payload tasks.Tool

	listed  *mcp.Tool
	mirrors bool
	fault   error // why the tool cannot be offered
}

// compile reads an McpTool. Its fault says which of its schemas cannot be used and why.
func compile(object *v1alpha1.McpTool) *Tool {
	t := &Tool{Object: object, Payload: tasks.Tool{UID: object.UID, Generation: object.Generation}}
	if interval := object.Spec.PollInterval; interval != nil {
		t.Payload.PollInterval = interval.Duration
	}
	t.listed = &mcp.Tool{
		Name: object.WireName(), Title: object.Spec.Title, Description: object.Spec.Description,
		InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: annotations(object.Spec.Annotations),
	}
	var err error
	if schema := object.Spec.InputSchema; schema != nil {
		t.listed.InputSchema = json.RawMessage(schema.Raw)
		t.mirrors = toolschema.NamesHeaders(schema.Raw)
		t.Input, err = toolschema.Compile(schema.Raw)
	} else {
		t.Input, err = toolschema.Compile(nil)
	}
	if err != nil {
		t.fault = fmt.Errorf("inputSchema %w", err)
		return t
	}
	if schema := object.Spec.OutputSchema; schema != nil {
		t.listed.OutputSchema = json.RawMessage(schema.Raw)
		if t.Payload.Output, err = toolschema.Compile(schema.Raw); err != nil {
			t.fault = fmt.Errorf("outputSchema %w", err)
		}
	}
	return t
}

// ready says whether the controller vouches for this generation of the tool.
func ready(object *v1alpha1.McpTool) bool {
	condition := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	return condition != nil && condition.Status == metav1.ConditionTrue &&
		condition.ObservedGeneration == object.Generation && object.DeletionTimestamp.IsZero()
}

func annotations(a *v1alpha1.ToolAnnotations) *mcp.ToolAnnotations {
	if a == nil {
		return nil
	}
	listed := &mcp.ToolAnnotations{DestructiveHint: a.DestructiveHint, OpenWorldHint: a.OpenWorldHint}
	if a.ReadOnlyHint != nil {
		listed.ReadOnlyHint = *a.ReadOnlyHint
	}
	if a.IdempotentHint != nil {
		listed.IdempotentHint = *a.IdempotentHint
	}
	return listed
}

// TaskSupport says whether calls may, must or must not become tasks.
func (t *Tool) TaskSupport() v1alpha1.TaskSupport {
	if support := t.Object.Spec.Execution.TaskSupport; support != "" {
		return support
	}
	return v1alpha1.TaskSupportOptional
}

// Asks is what the tool's Jobs may ask their callers.
func (t *Tool) Asks() wire.Elicitation {
	var asks wire.Elicitation
	if runtime := t.Object.Spec.Runtime; runtime != nil && runtime.Enabled {
		asks.Form = slices.Contains(runtime.Asks, v1alpha1.AskModeForm)
		asks.URL = slices.Contains(runtime.Asks, v1alpha1.AskModeURL)
	}
	return asks
}

// Limits are the bounds that the tool sets itself.
func (t *Tool) Limits() limits.Tool {
	bounds := limits.Tool{PollInterval: t.Payload.PollInterval}
	if l := t.Object.Spec.Limits; l != nil {
		bounds.RunningTasks, bounds.RunningTasksPerCaller = l.RunningTasks, l.RunningTasksPerCaller
	}
	return bounds
}

// MirrorsArguments says whether clients repeat some of the tool's arguments in headers (2026-07-28, server/tools, x-mcp-header).
func (t *Tool) MirrorsArguments() bool { return t.mirrors }

// SyncWindow is how long a caller that understands tasks waits before it gets one.
func (t *Tool) SyncWindow() time.Duration {
	if window := t.Object.Spec.Execution.SyncWindow; window != nil {
		return window.Duration
	}
	return 0
}

// MaxWait is how long a caller without tasks waits for its result.
func (t *Tool) MaxWait() time.Duration {
	if wait := t.Object.Spec.Execution.MaxWait; wait != nil {
		return wait.Duration
	}
	return defaultMaxWait
}
