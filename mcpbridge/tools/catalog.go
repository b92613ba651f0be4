package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// The watch reads every tool: the ready ones are what tools/list shows.
//
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptools,verbs=get;list;watch

// Catalog keeps one MCP server for each namespace in step with the namespace's McpTools.
type Catalog struct {
	newServer func() *mcp.Server
	log       *slog.Logger
	leftOut   func(n int) // is told how many ready tools cannot be offered

	mu         sync.RWMutex
	namespaces map[string]*namespace
	broken     map[types.UID]int64 // tools that cannot be offered, with the generation that was reported
	empty      *mcp.Server
	changed    chan struct{} // closed, and made anew, when a list of tools changes
}

type namespace struct {
	server *mcp.Server
	// objects are all tools, by object name: tasks outlive the readiness of their tool.
	objects map[string]*Tool
	// offered are the ready ones, by their name on the wire.
	offered map[string]*Tool
	// revision counts the changes of what the list of the offered ones says.
	revision int64
}

// NewCatalog makes an empty catalogue. newServer makes the MCP server of a namespace; leftOut is told the number of tools that
// are ready and yet cannot be offered, whenever it changes.
func NewCatalog(newServer func() *mcp.Server, log *slog.Logger, leftOut func(n int)) *Catalog {
	return &Catalog{newServer: newServer, log: log, leftOut: leftOut,
		namespaces: map[string]*namespace{}, broken: map[types.UID]int64{}, empty: newServer(), changed: make(chan struct{})}
}

// Server is the MCP server of a namespace. Namespaces without tools share one that has none.
func (c *Catalog) Server(name string) *mcp.Server {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ns := c.namespaces[name]; ns != nil {
		return ns.server
	}
	return c.empty
}

// Offered finds a tool that callers are offered, by its name on the wire.
func (c *Catalog) Offered(namespace, wireName string) (*Tool, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ns := c.namespaces[namespace]; ns != nil {
		tool, ok := ns.offered[wireName]
		return tool, ok
	}
	return nil, false
}

// OfTask finds the tool of a task, by the name of the object. The tool need not be ready, and may be nil: gone.
func (c *Catalog) OfTask(task *v1alpha1.McpTask) *Tool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ns := c.namespaces[task.Namespace]; ns != nil {
		return ns.objects[task.Spec.ToolName]
	}
	return nil
}

// Changed returns a channel that is closed when the list of tools of some namespace changes: Revision says which.
func (c *Catalog) Changed() <-chan struct{} {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changed
}

// Revision is a number that grows whenever the list of tools of the namespace changes.
func (c *Catalog) Revision(namespace string) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ns := c.namespaces[namespace]; ns != nil {
		return ns.revision
	}
	return 0
}

// Observe takes the watch's word for a tool.
func (c *Catalog) Observe(object *v1alpha1.McpTool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ns := c.namespaces[object.Namespace]
	if ns == nil {
		ns = &namespace{server: c.newServer(), objects: map[string]*Tool{}, offered: map[string]*Tool{}}
		c.namespaces[object.Namespace] = ns
	}
	previous := ns.objects[object.Name]
	if previous == nil || previous.Object.UID != object.UID || previous.Object.Generation != object.Generation {
		ns.objects[object.Name] = compile(object)
	} else { // only the status changed: the schemas are compiled already
		same := *previous
		same.Object = object
		ns.objects[object.Name] = &same
	}
	if previous != nil {
		c.settle(ns, previous.Object.WireName())
	}
	c.settle(ns, object.WireName())
	if fault := ns.objects[object.Name].fault; fault != nil && ready(object) {
		c.report(object, fault)
	}
}

// Forget takes the watch's word that a tool is gone.
func (c *Catalog) Forget(object *v1alpha1.McpTool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ns := c.namespaces[object.Namespace]
	if ns == nil {
		return
	}
	if known := ns.objects[object.Name]; known != nil {
		delete(ns.objects, object.Name)
		c.mend(known.Object.UID)
		c.settle(ns, known.Object.WireName())
	}
}

// settle offers under a name the oldest ready tool that claims it, or none. (The controller lets only one of them be
// ready; while it changes its mind two may seem so.)
func (c *Catalog) settle(ns *namespace, wireName string) {
	var chosen *Tool
	for _, tool := range ns.objects {
		if tool.fault == nil && tool.Object.WireName() == wireName && ready(tool.Object) && (chosen == nil || older(tool, chosen)) {
			chosen = tool
		}
	}
	current := ns.offered[wireName]
	defer func() {
		if !sameInList(current, ns.offered[wireName]) {
			ns.revision++
			close(c.changed)
			c.changed = make(chan struct{})
		}
	}()
	if chosen == nil {
		if current != nil {
			delete(ns.offered, wireName)
			ns.server.RemoveTools(wireName)
		}
		return
	}
	if current == nil || current.listed != chosen.listed {
		if err := addTool(ns.server, chosen.listed); err != nil {
			delete(ns.offered, wireName)
			ns.server.RemoveTools(wireName)
			c.report(chosen.Object, err)
			return
		}
	}
	c.mend(chosen.Object.UID)
	ns.offered[wireName] = chosen
}

// sameInList says whether clients are told the same of both, either of which may be no tool.
func sameInList(a, b *Tool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.listed == b.listed || reflect.DeepEqual(a.listed, b.listed)
}

func older(a, b *Tool) bool {
	if !a.Object.CreationTimestamp.Equal(&b.Object.CreationTimestamp) {
		return a.Object.CreationTimestamp.Before(&b.Object.CreationTimestamp)
	}
	return a.Object.Name < b.Object.Name
}

// report says once for each generation why a tool is not offered.
func (c *Catalog) report(object *v1alpha1.McpTool, err error) {
	if reported, ok := c.broken[object.UID]; !ok || reported != object.Generation {
		c.log.Error("a tool cannot be offered and is left out", "namespace", object.Namespace, "mcptool", object.Name, "error", err)
	}
	c.broken[object.UID] = object.Generation
	c.leftOut(len(c.broken))
}

func (c *Catalog) mend(uid types.UID) {
	if _, ok := c.broken[uid]; ok {
		delete(c.broken, uid)
		c.leftOut(len(c.broken))
	}
}

// addTool publishes a tool. The SDK panics on a tool that it cannot serve, for instance on a bad x-mcp-header.
func addTool(server *mcp.Server, tool *mcp.Tool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	server.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("tools are called through the bridge's middleware")
	})
	return nil
}
