package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// ending is why a wait is over.
type ending int

const (
	finished ending = iota // the task has ended
	timeUp                 // the limit has passed
	left                   // the caller has gone
	draining               // the bridge is about to end
	gone                   // the task was deleted
	asking                 // the task waits for the caller's answer
)

// await waits for the end of the task, at most limit, and answers with what there is then.
func (e *Endpoint) await(ctx context.Context, x *exchange, session *mcp.ServerSession, tool *tools.Tool, task *v1alpha1.McpTask, limit time.Duration) (*answer, *wire.Error) {
	why := timeUp
	if limit > 0 {
		report := progressReporter(ctx, session, x.request.Params.Meta.ProgressToken)
		task, why = e.wait(x, task, limit, report)
	}
	switch why {
	case finished:
		return e.finishedAnswer(x, task)
	case asking:
		if !takesHandle(x, tool) {
			return e.ask(x, tool, task)
		}
	case left:
		if x.request.Params.Meta.IdempotencyKey != "" { // the caller has said how it will come back
			return nil, wire.InvalidRequest("the caller has left") // nobody reads this
		}
		if err := e.cancel(x, task, "the caller disconnected before its call was answered"); err != nil {
			e.Log.Error("a task whose caller left could not be cancelled", "namespace", task.Namespace, "task", task.Name, "error", err)
		}
		return nil, wire.InvalidRequest("the caller has left") // nobody reads this
	case gone:
		return nil, &wire.Error{Code: wire.CodeInternalError, Message: "Task " + task.Name + " was deleted before it ended"}
	}
	if takesHandle(x, tool) {
		return e.handleAnswer(x, task)
	}
	where := whereItEnds(task)
	if why == draining {
		return nil, wire.ServerLeaves(task.Name, where)
	}
	return e.resultAnswer(x, wire.ErrorResult(fmt.Sprintf("The tool has not ended within %s. The task goes on as %s; %s", limit, task.Name, where)))
}

// whereItEnds tells a caller that cannot look at tasks who can show it the result of one.
func whereItEnds(task *v1alpha1.McpTask) string {
	return fmt.Sprintf("its result will be shown by: kubectl get mcptask %s -n %s -o yaml", task.Name, task.Namespace)
}

// askable are the open questions that the caller can put to its user.
func askable(x *exchange, task *v1alpha1.McpTask) map[string]wire.InputPrompt {
	questions := map[string]wire.InputPrompt{}
	for _, q := range wire.Outstanding(task) {
		if x.request.Params.Meta.Elicitation.Can(wire.Mode(q)) {
			questions[q.Key] = wire.InputPrompt{Method: q.Method, Params: q.Params.Raw}
		}
	}
	return questions
}

// ask answers a call whose Job has asked, for a caller without tasks. The next try finds the task again.
func (e *Endpoint) ask(x *exchange, tool *tools.Tool, task *v1alpha1.McpTask) (*answer, *wire.Error) {
	state := newState(x, tool)
	state.Task = task.Name
	return e.inputRequired(x, state, askable(x, task))
}

// wait returns the newest state of the task and why the wait is over.
func (e *Endpoint) wait(x *exchange, task *v1alpha1.McpTask, limit time.Duration, report func(*v1alpha1.Progress)) (*v1alpha1.McpTask, ending) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	changed, stop := e.Store.Subscribe(key)
	defer stop()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		latest, ok := e.Store.Get(key)
		switch {
		case ok:
			task = latest
		case e.deleted(x, key):
			return task, gone
		}
		report(task.Status.Progress)
		if task.Status.State.Terminal() {
			return task, finished
		}
		if task.Status.State == v1alpha1.TaskInputRequired && len(askable(x, task)) > 0 {
			return task, asking
		}
		select {
		case <-changed:
		case <-timer.C:
			return task, timeUp
		case <-e.draining:
			return task, draining
		case <-x.http.Context().Done():
			select {
			case <-e.draining: // then it was not the caller who left
				return task, draining
			default:
				return task, left
			}
		}
	}
}

// deleted says, after a live read, whether a task that the watch does not show is gone.
func (e *Endpoint) deleted(x *exchange, key types.NamespacedName) bool {
	ctx, stop := context.WithTimeout(x.http.Context(), writeLimit)
	defer stop()
	_, err := e.API.Get(ctx, key)
	return apierrors.IsNotFound(err)
}

// progressReporter sends each progress that is more than the last one (2026-07-28, Progress), if the caller asked for it.
func progressReporter(ctx context.Context, session *mcp.ServerSession, token json.RawMessage) func(*v1alpha1.Progress) {
	if len(token) == 0 {
		return func(*v1alpha1.Progress) {}
	}
	last, any := 0.0, false
	return func(p *v1alpha1.Progress) {
		if p == nil {
			return
		}
		current, err := strconv.ParseFloat(p.Current, 64)
		if err != nil || any && current <= last {
			return
		}
		last, any = current, true
		total, _ := strconv.ParseFloat(p.Total, 64) // absent or odd: unknown, which is 0
		// A caller who has left is noticed by the wait itself.
		_ = session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: current, Total: total, Message: p.Message})
	}
}

// finishedAnswer is what the call returns for a task that has ended.
func (e *Endpoint) finishedAnswer(x *exchange, task *v1alpha1.McpTask) (*answer, *wire.Error) {
	done, failure := e.deliver(x, task)
	if failure != nil {
		return nil, failure
	}
	x.leave = append(x.leave, done) // the answer is written by the SDK
	payload, err := e.payload(x, task)
	if err != nil {
		failure := e.unread(x, task, err)
		if failure.Code == wire.CodeUnavailable && takesHandle(x, x.tool) {
			return e.handleAnswer(x, task)
		}
		return nil, failure
	}
	switch payload.Task.Status {
	case v1alpha1.TaskFailed:
		failure := *payload.Task.Error
		return nil, &failure
	case v1alpha1.TaskCancelled:
		text := "The task was cancelled before the tool ended"
		if payload.Task.StatusMessage != "" {
			text += " (" + payload.Task.StatusMessage + ")"
		}
		text += "."
		return e.resultAnswer(x, wire.ErrorResult(text))
	}
	return e.resultAnswer(x, payload.Task.Result)
}

func (e *Endpoint) resultAnswer(x *exchange, result *wire.CallResult) (*answer, *wire.Error) {
	bare := *result
	bare.Meta = nil
	object, err := json.Marshal(bare)
	if err == nil {
		var a *answer
		if a, err = newAnswer(object, result.Meta); err == nil {
			return a, nil
		}
	}
	return nil, e.internal(x, err)
}

func (e *Endpoint) handleAnswer(x *exchange, task *v1alpha1.McpTask) (*answer, *wire.Error) {
	object, err := wire.CreateTaskResult(e.payloads.Brief(task, e.toolOf(task), x.request.Params.Meta.Elicitation))
	if err != nil {
		return nil, e.internal(x, err)
	}
	a, err := newAnswer(object, nil)
	if err != nil {
		return nil, e.internal(x, err)
	}
	return a, nil
}
