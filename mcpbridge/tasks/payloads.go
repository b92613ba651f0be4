package tasks

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// maxPayloadBytes bounds the answers that are kept ready: room for the largest result there can be, whatever it is made of.
	maxPayloadBytes = 64 << 20
	// payloadBytes is what a payload takes beside its result, roughly.
	payloadBytes = 2 << 10
	// maxLarge bounds the results in Secrets that are read and made into answers at one time: each may take many times its size.
	maxLarge = 2
	// buildTimeout bounds the making of an answer, and the wait for others that are being made.
	buildTimeout = time.Minute
)

// Tool is the tool of a task, in the generation that its payload was built with.
type Tool struct {
	wire.Tool
	// UID and Generation of the McpTool; zero when it is gone.
	UID        types.UID
	Generation int64
}

// Payloads keeps the answers of tasks/get ready: a task that does not change is built, and its result read and checked
// against the tool's schema, once and not for each poll.
type Payloads struct {
	server  wire.ServerInfo
	results *Results
	built   *lru[version, *Payload]
	flight  singleflight.Group
	large   chan struct{}
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
func NewPayloads(server wire.ServerInfo, results *Results) *Payloads {
	return &Payloads{server: server, results: results, built: newLRU[version, *Payload](maxPayloadBytes), large: make(chan struct{}, maxLarge)}
}

// Of returns what is said about the task in its present state, to a client that can ask its user so much. The error is that of the
// task's result: ErrUnknown, a *resultsecret.Damaged, or why it cannot be read now.
func (p *Payloads) Of(ctx context.Context, task *v1alpha1.McpTask, tool Tool, client wire.Elicitation) (*Payload, error) {
	if task.Status.State != v1alpha1.TaskInputRequired {
		client = wire.Elicitation{} // then it is the same for all
	}
	key := version{task.UID, task.ResourceVersion, tool.UID, tool.Generation, client}
	if known, ok := p.built.get(key); ok {
		return known, nil
	}
	made := p.flight.DoChan(fmt.Sprint(key), func() (any, error) {
		if known, ok := p.built.get(key); ok { // another has just been made
			return known, nil
		}
		// Not the caller's context: others may wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTimeout)
		defer cancel()
		payload, err := p.build(ctx, task, tool, client)
		if err == nil {
			p.built.add(key, payload, payload.size())
		}
		return payload, err
	})
	select {
	case answer := <-made:
		if answer.Err != nil {
			return nil, answer.Err
		}
		return answer.Val.(*Payload), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Brief is what is said about a task without its result: only whether that is an error of the tool. It costs nothing.
func (p *Payloads) Brief(task *v1alpha1.McpTask, tool Tool, client wire.Elicitation) *wire.Task {
	return wire.NewBrief(task, tool.Tool, client)
}

func (p *Payloads) build(ctx context.Context, task *v1alpha1.McpTask, tool Tool, client wire.Elicitation) (*Payload, error) {
	var result []byte
	if task.Status.State == v1alpha1.TaskCompleted {
		if stored := task.Status.Result; stored != nil && stored.SecretRef != nil {
			select {
			case p.large <- struct{}{}:
				defer func() { <-p.large }()
			case <-ctx.Done():
				return nil, fmt.Errorf("waiting for other large results: %w", ctx.Err())
			}
		}
		var err error
		if result, err = p.results.of(ctx, task); err != nil {
			return nil, err
		}
	}
	payload := &Payload{Task: wire.NewTask(task, tool.Tool, client, result)}
	var err error
	if payload.Get, payload.Fields, err = wire.GetTaskResult(payload.Task, p.server); err != nil {
		return nil, fmt.Errorf("task %s/%s cannot be written as JSON: %w", task.Namespace, task.Name, err)
	}
	payload.Digest = maphash.Bytes(digestSeed, payload.Fields)
	return payload, nil
}

// size is what a payload takes of the memory.
func (p *Payload) size() int64 { return int64(cap(p.Get)) + p.Task.ResultBytes() + payloadBytes }
