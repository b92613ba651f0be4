package endpoint

import (
	"encoding/json"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// rule is what holds for a method before it is served. Every field must be set: the zero values are no rules.
type rule struct {
	capability capability
	// name is the parameter that the Mcp-Name header repeats.
	name   nameHeader
	object object
	serve  func(*Endpoint, *exchange)
}

// capability is what the client must have declared in the request.
type capability int

const (
	_ capability = iota
	noCapability
	tasksCapability
	// anySession, taskSession and listSession are for the older revisions, where the client has said in initialize what it
	// can: a session, one that knows tasks, and one of a caller who can be told from others.
	anySession
	taskSession
	listSession
)

// object is what the method is about, and so whose it must be.
type object int

const (
	_ object = iota
	// serverOnly: the method is about the server itself, which every identified caller may know.
	serverOnly
	// callableTools: the method is about the tools that the caller may call; callable finds them.
	callableTools
	// calledTool: the method is about a tool, which the caller must be allowed to call.
	calledTool
	// ownTask: the method is about a task, which must be the caller's own.
	ownTask
	// ownTasks: the method is about several tasks; own finds each, or the store by their owner.
	ownTasks
)

// nameHeader says what the Mcp-Name header is about (Streamable HTTP, Standard Request Headers; tasks, Routing Headers).
type nameHeader int

const (
	_ nameHeader = iota
	noName
	toolName
	taskID
)

// parameter is the parameter that the header repeats, and its name.
func (n nameHeader) parameter(p *wire.Params) (json.RawMessage, string) {
	switch n {
	case toolName:
		return p.Name, "params.name"
	case taskID:
		return p.TaskID, "params.taskId"
	}
	return nil, ""
}

// methods are the methods that there are. What is not here is answered with -32601.
func methods() map[string]rule {
	return map[string]rule{
		"server/discover": {noCapability, noName, serverOnly, (*Endpoint).serveSDK},
		"tools/list":      {noCapability, noName, callableTools, (*Endpoint).serveSDK},
		"tools/call":      {noCapability, toolName, calledTool, (*Endpoint).serveSDK},
		"tasks/get":       {tasksCapability, taskID, ownTask, (*Endpoint).serveGet},
		"tasks/update":    {tasksCapability, taskID, ownTask, (*Endpoint).serveUpdate},
		"tasks/cancel":    {tasksCapability, taskID, ownTask, (*Endpoint).serveCancel},
		// It depends on its parameters which capability it needs and which tasks it is about: serveListen sees to both.
		"subscriptions/listen": {noCapability, noName, ownTasks, (*Endpoint).serveListen},
	}
}
