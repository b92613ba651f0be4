package endpoint

import (
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// permit is the one place where it is decided whether a caller may use a method on an object. A stranger is told what
// somebody is told who asks for a task or a tool that never was, and after the same work; the audit log has the truth.
func (e *Endpoint) permit(x *exchange, rule rule) (failure *wire.Error) {
	switch rule.object {
	case serverOnly, callableTools, ownTasks:
		return nil
	case calledTool:
		x.tool, failure = e.allowed(x)
		return failure
	case ownTask:
		id, ok := wire.Text(x.request.Params.TaskID)
		if !ok {
			return wire.InvalidParams("params.taskId must be a string")
		}
		x.task, failure = e.own(x, id)
		return failure
	}
	return e.internal(x, fmt.Errorf("the method %s has no rule for what it is about", x.label))
}

// own finds a task of the caller's. All that is done with tasks rests on it.
func (e *Endpoint) own(x *exchange, id string) (*v1alpha1.McpTask, *wire.Error) {
	key := types.NamespacedName{Namespace: x.namespace, Name: id}
	task, err := e.finder.FindOwn(x.http.Context(), key, x.principal.String(), x.principal.Owns)
	switch {
	case errors.Is(err, tasks.ErrStranger):
		e.deny(x, id, "not the owner of the task")
	case errors.Is(err, tasks.ErrUnknown):
		e.deny(x, id, "no such task")
	}
	if err != nil {
		return nil, e.notFound(x, err)
	}
	return task, nil
}

// notFound says why a task was not found.
func (e *Endpoint) notFound(x *exchange, err error) *wire.Error {
	switch {
	case errors.Is(err, tasks.ErrUnknown), errors.Is(err, tasks.ErrStranger):
		return wire.UnknownTask()
	case errors.Is(err, tasks.ErrTooMany):
		return e.Metrics.tooManyLookups()
	}
	return e.unavailable(x, err)
}

// unavailable says that the API server could not be asked.
func (e *Endpoint) unavailable(x *exchange, err error) *wire.Error {
	failure := e.internal(x, err)
	failure.Status = http.StatusServiceUnavailable
	return failure
}

// allowed is the tool that a call names; nil where there is none, or none that the caller may call.
func (e *Endpoint) allowed(x *exchange) (*tools.Tool, *wire.Error) {
	name, _ := wire.Text(x.request.Params.Name)
	name = clipName(name)
	if e.paces.denied.Empty(x.caller()) {
		return nil, e.Metrics.tooManyDenied()
	}
	tool, known := e.Tools.Offered(x.namespace, name)
	object := name
	if known {
		object = tool.Object.Name
	}
	may, err := e.Access.MayCall(x.http.Context(), x.principal, x.namespace, object)
	switch {
	case err != nil:
		return nil, e.unavailable(x, err)
	case known && may:
		return tool, nil
	}
	e.paces.denied.Take(x.caller())
	why := "may not call the tool"
	if !known {
		why = "no such tool"
	}
	e.record(x, audit.Event{Outcome: audit.Denied, Tool: object, Why: why})
	return nil, nil
}

// unknownTool is the answer to a call of a tool that the caller is not offered.
func unknownTool(x *exchange) *wire.Error {
	name, _ := wire.Text(x.request.Params.Name)
	return wire.InvalidParams("Unknown tool: " + clipName(name))
}

// callable leaves of the tools, which nameOf names on the wire, those that the caller may call.
func callable[T any](e *Endpoint, x *exchange, offered []T, nameOf func(T) string) ([]T, *wire.Error) {
	ctx := x.http.Context()
	if all, err := e.Access.MayCall(ctx, x.principal, x.namespace, ""); err != nil {
		return nil, e.unavailable(x, err)
	} else if all {
		return offered, nil
	}
	may := make([]bool, len(offered))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, listed := range offered {
		tool, ok := e.Tools.Offered(x.namespace, nameOf(listed))
		if !ok {
			continue // gone since it was listed
		}
		group.Go(func() (err error) {
			may[i], err = e.Access.MayCall(ctx, x.principal, x.namespace, tool.Object.Name)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, e.unavailable(x, err)
	}
	left := make([]T, 0, len(offered))
	for i, listed := range offered {
		if may[i] {
			left = append(left, listed)
		}
	}
	return left, nil
}

// reviewsAtOnce is how many tools of a list are asked about at the same time.
const reviewsAtOnce = 8

// deny writes the audit line of a request that was refused for what its caller is.
func (e *Endpoint) deny(x *exchange, task, why string) {
	e.record(x, audit.Event{Outcome: audit.Denied, Task: task, Why: why})
}

// record writes an audit line about a request.
func (e *Endpoint) record(x *exchange, event audit.Event) {
	event.Who, event.Method, event.Namespace, event.Remote = x.principal, x.label, x.namespace, x.http.RemoteAddr
	e.Audit.Write(event)
}
