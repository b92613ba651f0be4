package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// maxAnswersBytes bounds all answers of a task together: there must be room left to cancel it, and for its end.
const maxAnswersBytes = 256 << 10

// viaMCP is how answers come that are given here.
const viaMCP = "mcp"

// serveUpdate takes answers to the task's questions (tasks, Task Update Requests).
func (e *Endpoint) serveUpdate(x *exchange) {
	responses, ok := wire.ReadResponses(x.request.Params.InputResponses)
	if !ok {
		x.fail(wire.InvalidParams("params.inputResponses must be an object, with each key once"))
		return
	}
	if failure := e.answer(x, x.task, responses); failure != nil {
		x.fail(failure)
		return
	}
	e.acknowledge(x)
}

// answer stores a caller's answers to the questions of its own task. All of them are checked before any is stored. An
// answer to a question that is not open, or was never asked, is ignored. Once it returns, this replica shows the task
// without the questions.
func (e *Endpoint) answer(x *exchange, task *v1alpha1.McpTask, responses map[string]json.RawMessage) *wire.Error {
	if len(responses) == 0 || task.Status.State.Terminal() {
		return nil
	}
	if !asked(task, responses) {
		// Another replica may have shown the question a moment before this one hears of it.
		latest, failure := e.latest(x, task)
		if failure != nil {
			return failure
		}
		task = latest
	}
	for _, q := range wire.Outstanding(task) {
		response, given := responses[q.Key]
		if !given {
			continue
		}
		if failure := wire.CheckResponse(q, response, "inputResponses/"+q.Key); failure != nil {
			return failure
		}
	}
	if len(fitting(x, task, responses)) == 0 {
		return nil
	}
	// The write outlives a caller who leaves.
	ctx, stop := context.WithTimeout(context.WithoutCancel(x.http.Context()), writeLimit)
	defer stop()
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	var stored []v1alpha1.InputResponse
	var size int
	answered, err := e.API.Answer(ctx, key, func(now *v1alpha1.McpTask) []v1alpha1.InputResponse {
		stored = fitting(x, now, responses)
		if size = sizeOf(now.Spec.InputResponses) + sizeOf(stored); size > maxAnswersBytes {
			return nil
		}
		return stored
	})
	switch {
	case err == nil && len(stored) > 0 && size > maxAnswersBytes:
		return wire.InvalidParams(fmt.Sprintf("inputResponses: all answers of the task would be %d bytes; it holds %d", size, maxAnswersBytes))
	case apierrors.IsNotFound(err):
		return wire.UnknownTask()
	case err != nil && (apierrors.IsInvalid(err) || tooLarge(err)):
		e.Log.Warn("the API server does not take answers", "namespace", key.Namespace, "task", key.Name, "error", err)
		return wire.InvalidParams("inputResponses: the task cannot hold these answers, for instance because they are too large together")
	case err != nil:
		failure := e.internal(x, fmt.Errorf("storing answers of task %s: %w", key, err))
		failure.Status = http.StatusServiceUnavailable
		return failure
	}
	e.Store.Remember(answered)
	for _, r := range stored {
		e.record(x, audit.Event{Outcome: audit.Answered, Task: key.Name, Tool: task.Spec.ToolName, Question: r.Key})
	}
	return nil
}

func sizeOf(answers []v1alpha1.InputResponse) (size int) {
	for _, a := range answers {
		size += len(a.Response.Raw)
	}
	return size
}

// tooLarge says whether an object became larger than the API server's store takes.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large")
}

// asked says whether this replica knows all of the questions.
func asked(task *v1alpha1.McpTask, responses map[string]json.RawMessage) bool {
	for key := range responses {
		if !slices.ContainsFunc(task.Status.InputRequests, func(q v1alpha1.InputRequest) bool { return q.Key == key }) {
			return false
		}
	}
	return true
}

// latest reads the task from the API server.
func (e *Endpoint) latest(x *exchange, task *v1alpha1.McpTask) (*v1alpha1.McpTask, *wire.Error) {
	latest, err := e.finder.Refresh(x.http.Context(), types.NamespacedName{Namespace: task.Namespace, Name: task.Name}, x.principal.String())
	if err != nil {
		return nil, e.notFound(x, err)
	}
	if latest.UID != task.UID {
		return nil, wire.UnknownTask()
	}
	return latest, nil
}

// fitting are the answers to questions of the task that are open and were checked against their forms.
func fitting(x *exchange, task *v1alpha1.McpTask, responses map[string]json.RawMessage) []v1alpha1.InputResponse {
	if task.Status.State.Terminal() {
		return nil
	}
	now := metav1.Now()
	var answers []v1alpha1.InputResponse
	open := map[string]v1alpha1.InputRequest{}
	for _, q := range wire.Outstanding(task) {
		open[q.Key] = q
	}
	for _, key := range slices.Sorted(maps.Keys(responses)) {
		q, isOpen := open[key]
		if !isOpen || wire.CheckResponse(q, responses[key], key) != nil {
			continue
		}
		answers = append(answers, v1alpha1.InputResponse{
			Key: key, Response: runtime.RawExtension{Raw: wire.NormalResponse(q, responses[key])}, AnsweredAt: &now,
			AnsweredBy: &v1alpha1.Answerer{Principal: x.principal.String(), Via: viaMCP},
		})
	}
	return answers
}
