package endpoint

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// serveListen answers subscriptions/listen with a stream of notifications (2026-07-28, Subscriptions; tasks, Task Status
// Notifications). The stream stays open, whatever becomes of its tasks and even if nothing was granted, until the
// client closes it or the bridge ends: it is the client's to say that it wants to hear no more.
func (e *Endpoint) serveListen(x *exchange) {
	filter, failure := wire.ReadFilter(x.request.Params.Notifications)
	if failure != nil {
		x.fail(failure)
		return
	}
	if filter.TaskIDs != nil && !x.request.Params.Meta.Tasks {
		x.fail(wire.MissingTasksCapability())
		return
	}
	messages, failure := wire.NewSubscription(x.request.ID)
	if failure != nil {
		x.fail(failure)
		return
	}
	s := newSubscription(e, x, messages)
	if failure := e.subscriptions.add(s); failure != nil {
		x.fail(failure)
		return
	}
	defer e.subscriptions.remove(s)
	granted, failure := e.grant(x, filter.TaskIDs)
	if failure != nil {
		x.fail(failure)
		return
	}
	filter.TaskIDs = granted
	// What the request said besides is not needed for as long as the stream lasts.
	x.request.Params = wire.Params{Meta: wire.Meta{Elicitation: x.request.Params.Meta.Elicitation}}
	s.serve(filter)
}

// grant leaves out the tasks that are not the caller's own, as if they had never been. One that cannot be looked up at
// once, because the caller asked for too many that nobody knows, is left out too: tasks/get will settle it.
func (e *Endpoint) grant(x *exchange, ids []string) ([]string, *wire.Error) {
	if ids == nil {
		return nil, nil
	}
	granted := make([]string, 0, len(ids))
	for _, id := range ids {
		_, failure := e.own(x, id)
		switch {
		case failure == nil:
			granted = append(granted, id)
		case failure.HTTPStatus() == http.StatusServiceUnavailable:
			return nil, failure
		}
	}
	return granted, nil
}

// keys of tasks in the namespace of the request.
func (x *exchange) keys(ids []string) []types.NamespacedName {
	keys := make([]types.NamespacedName, len(ids))
	for i, id := range ids {
		keys[i] = types.NamespacedName{Namespace: x.namespace, Name: id}
	}
	return keys
}
