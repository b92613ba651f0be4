package tasks

import (
	"fmt"
	"hash/maphash"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// maxPayloads bounds the number of answers that are kept ready.
	maxPayloads = 4096
	// payloadLife frees the memory of tasks that nobody polls any more.
	payloadLife = 10 * time.Minute
)

// Tool is the tool of a task, in the generation that its payload was built with.
type Tool struct {
	wire.Tool
	// UID and Generation of the McpTool; zero when it is gone.
	UID        types.UID
	Generation int64
}

// Payloads keeps the answers of tasks/get ready: a task that does not change is built, and its result checked
// against the tool's schema, once and not for each poll.
type Payloads struct {
	server wire.ServerInfo
	built  *cache.LRUExpireCache // version → *Payload
}

// version is what a payload depends on.
type version struct {
	task            types.UID
	resourceVersion string
	tool            types.UID
	generation      int64
	client          wire.Elicitation
}

// Payload is what is said about a task.
type Payload struct {
	// Task as it is sent.
	Task *wire.Task
	// Get is the result of tasks/get, as JSON.
	Get []byte
	// Fields are the part of Get that is the task itself: what notifications say too.
	Fields []byte
	// Digest tells payloads apart that say different things.
	Digest uint64
}

var digestSeed = maphash.MakeSeed()

// NewPayloads makes an empty cache of answers of this server.
func NewPayloads(server wire.ServerInfo) *Payloads {
	return &Payloads{server: server, built: cache.NewLRUExpireCache(maxPayloads)}
}

// Of returns what is said about the task in its present state, to a client that can ask its user so much.
func (p *Payloads) Of(task *v1alpha1.McpTask, tool Tool, client wire.Elicitation) (*Payload, error) {
	if task.Status.State != v1alpha1.TaskInputRequired {
		client = wire.Elicitation{} // then it is the same for all
	}
	key := version{task.UID, task.ResourceVersion, tool.UID, tool.Generation, client}
	if known, ok := p.built.Get(key); ok {
		return known.(*Payload), nil
	}
	payload := &Payload{Task: wire.NewTask(task, tool.Tool, client)}
	var err error
	if payload.Get, payload.Fields, err = wire.GetTaskResult(payload.Task, p.server); err != nil {
		return nil, fmt.Errorf("task %s/%s cannot be written as JSON: %w", task.Namespace, task.Name, err)
	}
	payload.Digest = maphash.Bytes(digestSeed, payload.Fields)
	p.built.Add(key, payload, payloadLife)
	return payload, nil
}
