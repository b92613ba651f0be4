package endpoint

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// serveLegacyResult answers tasks/result once the task has ended, with what the call would have been answered with. Until
// then it is a stream that carries the task's questions (2025-11-25, Tasks, Result Retrieval).
func (e *Endpoint) serveLegacyResult(x *exchange) {
	task := x.task
	if ended(task) {
		e.replyResult(x, task)
		return
	}
	release, ok := e.takePlace()
	if !ok {
		x.fail(e.tooManyWait("poll with tasks/get"))
		return
	}
	defer release()
	x.beginEvents()
	task, why := e.follow(newTeller(e, x, task.Name), task, 0)
	switch why {
	case finished:
		e.replyResult(x, task)
	case draining:
		x.fail(wire.ServerLeaves(task.Name, "ask again"))
	case gone:
		x.fail(&wire.Error{Code: wire.CodeInternalError, Message: "Task " + task.Name + " was deleted before it ended"})
	}
}

// followCall waits for the result of a call without a task, at most limit. A client that leaves cancels nothing: this is
// not what leaving means before 2026-07-28 (2025-11-25, Transports, Sending Messages to the Server).
func (e *Endpoint) followCall(x *exchange, task *v1alpha1.McpTask, limit time.Duration) {
	why := timeUp
	if limit > 0 {
		x.beginEvents()
		t := newTeller(e, x, task.Name)
		t.nameless = true
		task, why = e.follow(t, task, limit)
	}
	where := whereItEnds(task)
	switch why {
	case finished:
		e.replyCall(x, task)
	case draining:
		x.fail(wire.ServerLeaves(task.Name, where))
	case gone:
		x.fail(&wire.Error{Code: wire.CodeInternalError, Message: "Task " + task.Name + " was deleted before it ended"})
	case timeUp:
		e.replyTool(x, wire.ErrorResult(fmt.Sprintf("The tool has not ended within %s. The task goes on as %s; %s", limit, task.Name, where)), "")
	}
}

// ended says whether an older client sees the task as ended.
func ended(task *v1alpha1.McpTask) bool {
	return task.Spec.Cancel != nil || task.Status.State.Terminal()
}

// follow tells what there is to tell of a task until it has ended or limit, if there is one, has passed. It returns the newest
// state of the task and why it returned.
func (e *Endpoint) follow(t *teller, task *v1alpha1.McpTask, limit time.Duration) (*v1alpha1.McpTask, ending) {
	defer e.shown.enter(t)()
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	changed, stop := e.Store.Subscribe(key)
	defer stop()
	beat := time.NewTicker(e.subscriptions.rhythm.heartbeat)
	defer beat.Stop()
	var timer <-chan time.Time
	if limit > 0 {
		timer = time.After(limit)
	}
	for {
		latest, ok := e.Store.Get(key)
		switch {
		case ok:
			task = latest
		case e.deleted(t.x, key):
			return task, gone
		}
		err := t.progress(task)
		if ended(task) {
			return task, finished
		}
		if err == nil {
			_, err = t.ask(task)
		}
		if err != nil {
			return task, left
		}
		select {
		case <-changed:
		case <-beat.C: // the time has come to show what other streams may have failed to show, too
			if t.x.comment() != nil {
				return task, left
			}
		case <-timer:
			return task, timeUp
		case <-e.draining:
			return task, draining
		case <-t.x.http.Context().Done():
			return task, left
		}
	}
}

// replyResult answers tasks/result for a task that has ended.
func (e *Endpoint) replyResult(x *exchange, task *v1alpha1.McpTask) {
	if task.Spec.Cancel != nil || task.Status.State == v1alpha1.TaskCancelled {
		x.fail(&wire.Error{Code: wire.CodeInternalError, Message: "Task " + task.Name + " was cancelled: it has no result"})
		return
	}
	e.replyEnd(x, task, task.Name)
}

// replyCall answers a call without a task whose task has ended.
func (e *Endpoint) replyCall(x *exchange, task *v1alpha1.McpTask) {
	if task.Spec.Cancel != nil || task.Status.State == v1alpha1.TaskCancelled {
		e.replyTool(x, wire.ErrorResult("The task was cancelled before the tool ended."), "")
		return
	}
	e.replyEnd(x, task, "")
}

func (e *Endpoint) replyEnd(x *exchange, task *v1alpha1.McpTask, related string) {
	done, failure := e.deliver(x, task)
	if failure != nil {
		x.fail(failure)
		return
	}
	defer done()
	payload, err := e.payload(x, task)
	switch {
	case err != nil && related != "": // the caller knows the task and may ask again
		x.fail(e.unshown(x, err))
		return
	case err != nil:
		x.fail(e.unread(x, task, err))
		return
	}
	if payload.Task.Status == v1alpha1.TaskFailed {
		failure := *payload.Task.Error
		failure.Status = http.StatusOK // the request was good, whatever the code says
		x.fail(&failure)
		return
	}
	e.replyTool(x, payload.Task.Result, related)
}

func (e *Endpoint) replyTool(x *exchange, result *wire.CallResult, related string) {
	raw, err := wire.LegacyCallResult(result, related)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	x.result(raw)
}
