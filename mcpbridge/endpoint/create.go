package endpoint

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// maxCapabilitiesBytes bounds the capabilities that are stored with a task.
const maxCapabilitiesBytes = 16 << 10

// newTask is the task of a call with these arguments, or what is wrong with the call.
func newTask(x *exchange, tool *tools.Tool, arguments json.RawMessage) (*v1alpha1.McpTask, *wire.Error) {
	params := &x.request.Params
	if err := checkArguments(arguments, tool.Input); err != nil {
		return nil, wire.InvalidArguments(err)
	}
	if len(params.Meta.Capabilities) > maxCapabilitiesBytes || toolschema.CheckArguments(params.Meta.Capabilities) != nil {
		return nil, wire.InvalidParams(fmt.Sprintf("params._meta field %s cannot be stored: it is larger than %d bytes, or has a number that no double holds",
			wire.MetaClientCapabilities, maxCapabilitiesBytes))
	}
	owner := x.principal.Identity
	task := &v1alpha1.McpTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: x.namespace,
			Name:      v1alpha1.NewTaskID(),
			Labels:    map[string]string{v1alpha1.LabelTool: tool.Object.Name, v1alpha1.LabelOwner: owner.Hash()},
		},
		Spec: v1alpha1.McpTaskSpec{
			ToolName:           tool.Object.Name,
			Arguments:          &runtime.RawExtension{Raw: arguments},
			Owner:              &owner,
			ClientCapabilities: &runtime.RawExtension{Raw: params.Meta.Capabilities},
			ProgressToken:      string(params.Meta.ProgressToken),
		},
	}
	if ttl := tool.Object.Spec.TTL; ttl != nil {
		task.Spec.TTL = ttl.Default
	}
	if holdsNothing(x, tool) && (task.Spec.TTL == nil || task.Spec.TTL.Duration > stateLife) {
		task.Spec.TTL = &metav1.Duration{Duration: stateLife}
	}
	return task, nil
}

// holdsNothing says whether the caller may be left with nothing but the state of a question, which lapses: then its task must not
// wait for an answer for ever.
func holdsNothing(x *exchange, tool *tools.Tool) bool {
	return x.era == modern && tool.Asks() != (wire.Elicitation{}) && !takesHandle(x, tool) && x.request.Params.Meta.IdempotencyKey == ""
}

// checkArguments says whether arguments that can be stored fit the tool and reach its program as they are.
func checkArguments(arguments []byte, schema *toolschema.Schema) error {
	if err := schema.Validate(arguments); err != nil {
		return err
	}
	_, err := schema.Variables(arguments)
	return err
}

// create stores the task. Once it returns one, the handle resolves on every replica.
func (e *Endpoint) create(x *exchange, task *v1alpha1.McpTask) (*v1alpha1.McpTask, *wire.Error) {
	// Not the caller's context: were it to end half-way, nobody would know whether there is a task.
	ctx, stop := context.WithTimeout(context.WithoutCancel(x.http.Context()), writeLimit)
	defer stop()
	created, err := e.API.Create(ctx, task)
	repeated := apierrors.IsAlreadyExists(err)
	if err != nil && undecided(err) {
		if !apierrors.IsAlreadyExists(err) { // a further try of the same call, which is routine
			e.Log.Warn("the API server's answer leaves open whether a task was stored", "namespace", task.Namespace, "task", task.Name, "error", err)
		}
		if created, err = e.lookAfterCreate(x, task); err != nil {
			failure := e.internal(x, fmt.Errorf("whether task %s/%s was stored is not known: %w", task.Namespace, task.Name, err))
			failure.Message = "It is not known whether the task " + task.Name + " was created; " + failure.Message
			return nil, failure
		}
	}
	if refused := e.quotaRefusal(err); refused != nil {
		return nil, refused
	}
	switch {
	case err == nil:
		e.Store.Remember(created)
		if !repeated {
			e.record(x, audit.Event{Outcome: audit.Created, Task: task.Name, Tool: task.Spec.ToolName})
		}
		return created, nil
	case apierrors.IsForbidden(err):
		failure := e.internal(x, fmt.Errorf("the cluster refused task %s/%s: %w", task.Namespace, task.Name, err))
		failure.Message = "The cluster does not accept a task in this namespace now; " + failure.Message
		return nil, failure
	}
	return nil, e.internal(x, fmt.Errorf("creating task %s/%s: %w", task.Namespace, task.Name, err))
}

// undecided says whether a task may be stored although its creation failed: no answer, no answer in time, or the answer
// to a request that was sent again (the name is random, so a task that exists already is this one).
func undecided(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsAlreadyExists(err)
}

// lookAfterCreate finds out what became of a creation.
func (e *Endpoint) lookAfterCreate(x *exchange, task *v1alpha1.McpTask) (*v1alpha1.McpTask, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(x.http.Context()), writeLimit)
	defer stop()
	return e.API.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Name})
}
