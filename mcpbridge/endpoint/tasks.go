package endpoint

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// writeLimit bounds a request to the API server that writes.
const writeLimit = 10 * time.Second

// serveGet answers tasks/get from what this replica knows: no API call, but for a result that it does not hold any more.
func (e *Endpoint) serveGet(x *exchange) {
	if failure := e.pace(x); failure != nil {
		x.fail(failure)
		return
	}
	done, failure := e.deliver(x, x.task)
	if failure != nil {
		x.fail(failure)
		return
	}
	defer done()
	payload, err := e.payload(x, x.task)
	if err != nil {
		x.fail(e.unshown(x, err))
		return
	}
	e.polled(x.taskKey(), payload.Task.PollIntervalMs)
	x.result(payload.Get)
}

// payload is what is said about a task to this caller now.
func (e *Endpoint) payload(x *exchange, task *v1alpha1.McpTask) (*tasks.Payload, error) {
	return e.payloads.Of(x.http.Context(), task, e.toolOf(task), x.request.Params.Meta.Elicitation)
}

// toolOf is what the payloads of a task take from its tool, if that is there.
func (e *Endpoint) toolOf(task *v1alpha1.McpTask) tasks.Tool {
	if t := e.Tools.OfTask(task); t != nil {
		return t.Payload
	}
	return tasks.Tool{}
}

// serveCancel stores the request to cancel and acknowledges it. From then on this replica shows the task with it.
func (e *Endpoint) serveCancel(x *exchange) {
	if err := e.cancel(x, x.task, "asked for by tasks/cancel"); err != nil {
		if apierrors.IsNotFound(err) {
			x.fail(wire.UnknownTask())
			return
		}
		failure := e.internal(x, err)
		failure.Status = http.StatusServiceUnavailable
		x.fail(failure)
		return
	}
	e.acknowledge(x)
}

// acknowledge answers a method whose result is empty.
func (e *Endpoint) acknowledge(x *exchange) {
	acknowledgement, err := wire.Acknowledgement(e.Server)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	x.result(acknowledgement)
}

// cancel asks for the end of a task. A task that has ended, or is ending already, costs no write.
func (e *Endpoint) cancel(x *exchange, task *v1alpha1.McpTask, reason string) error {
	if task.Status.State.Terminal() || task.Spec.Cancel != nil {
		return nil
	}
	// The write outlives a caller who leaves: it may be the very reason for it.
	ctx, stop := context.WithTimeout(context.WithoutCancel(x.http.Context()), writeLimit)
	defer stop()
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	now := metav1.Now()
	cancelled, err := e.API.Cancel(ctx, key, v1alpha1.CancelRequest{
		Requested: true, By: x.principal.String(), At: &now, Reason: reason,
	})
	if err != nil {
		return fmt.Errorf("cancelling task %s: %w", key, err)
	}
	e.Store.Remember(cancelled)
	e.record(x, audit.Event{Outcome: audit.Cancelled, Task: key.Name, Tool: task.Spec.ToolName, Why: reason})
	return nil
}
