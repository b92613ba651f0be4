package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// job is the work of one task, in a goroutine instead of a Pod. It writes the status that the controller would write.
type job struct {
	cluster *cluster
	key     types.NamespacedName
	// arguments of the call.
	arguments map[string]any
}

// work is what a tool does. An error ends the task as failed, with the code of a *protocolError.
type work func(ctx context.Context, j *job) (*mcp.CallToolResult, error)

// protocolError is an error of the call rather than of the tool.
type protocolError struct{ v1alpha1.TaskError }

func (e *protocolError) Error() string { return e.Message }

// run does the work of a task until it ends or is cancelled.
func (c *cluster) run(task *v1alpha1.McpTask, do work) {
	j := &job{cluster: c, key: keyOf(task)}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	changed, unsubscribe := c.store.Subscribe(j.key)
	defer unsubscribe()
	done := make(chan v1alpha1.McpTaskStatus, 1)
	go func() { done <- j.outcome(ctx, task, do) }()
	for {
		select {
		case <-changed:
			if now, ok := c.store.Get(j.key); ok && now.Spec.Cancel != nil {
				stop()
			}
		case end := <-done:
			j.update(func(s *v1alpha1.McpTaskStatus) {
				s.State, s.Message, s.Result, s.Error = end.State, end.Message, end.Result, end.Error
			})
			return
		}
	}
}

func (j *job) outcome(ctx context.Context, task *v1alpha1.McpTask, do work) v1alpha1.McpTaskStatus {
	failed := func(err error) v1alpha1.McpTaskStatus {
		fault := &protocolError{v1alpha1.TaskError{Code: wire.CodeInternalError, Message: err.Error()}}
		errors.As(err, &fault)
		return v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Error: &fault.TaskError}
	}
	if err := json.Unmarshal(task.Spec.Arguments.Raw, &j.arguments); err != nil {
		return failed(err)
	}
	j.update(func(s *v1alpha1.McpTaskStatus) { s.State, s.Message = v1alpha1.TaskWorking, "Running." })
	result, err := do(ctx, j)
	if ctx.Err() != nil {
		return v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled, Message: "Cancelled by request."}
	}
	if err != nil {
		return failed(err)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return failed(err)
	}
	return v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: &v1alpha1.TaskResult{
		Inline: &runtime.RawExtension{Raw: raw}, Size: int64(len(raw)),
	}}
}

func (j *job) update(change func(*v1alpha1.McpTaskStatus)) {
	_, _ = j.cluster.amend(j.key, func(task *v1alpha1.McpTask) bool { // tasks are never deleted here
		change(&task.Status)
		now := metav1.NowMicro()
		task.Status.LastUpdatedAt = &now
		return true
	})
}

// sleep is the time that work takes.
func (j *job) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (j *job) progress(current, total int) {
	j.update(func(s *v1alpha1.McpTaskStatus) {
		s.Progress = &v1alpha1.Progress{Current: strconv.Itoa(current), Total: strconv.Itoa(total), Message: fmt.Sprintf("Step %d of %d", current, total)}
	})
}

// question is a form for the caller's user.
type question struct{ key, message, schema string }

// answer to a question: what the user did, and the fields of the form.
type answer struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content"`
}

// ask asks questions at one time and waits for all answers.
func (j *job) ask(ctx context.Context, questions ...question) (map[string]answer, error) {
	changed, unsubscribe := j.cluster.store.Subscribe(j.key)
	defer unsubscribe()
	j.update(func(s *v1alpha1.McpTaskStatus) {
		now := metav1.Now()
		for _, q := range questions {
			params, _ := json.Marshal(map[string]any{"mode": "form", "message": q.message, "requestedSchema": json.RawMessage(q.schema)}) // the schemas are constants
			s.InputRequests = append(s.InputRequests, v1alpha1.InputRequest{
				Key: q.key, Method: "elicitation/create", Params: runtime.RawExtension{Raw: params}, RequestedAt: &now,
			})
		}
		s.State, s.Message = v1alpha1.TaskInputRequired, "Waiting for an answer."
	})
	for {
		if task, ok := j.cluster.store.Get(j.key); ok && len(wire.Outstanding(task)) == 0 {
			j.update(func(s *v1alpha1.McpTaskStatus) {
				for i := range s.InputRequests {
					s.InputRequests[i].Answered = true
				}
				s.State, s.Message = v1alpha1.TaskWorking, "Running."
			})
			return answers(task)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func answers(task *v1alpha1.McpTask) (map[string]answer, error) {
	all := map[string]answer{}
	for _, r := range task.Spec.InputResponses {
		var a answer
		if err := json.Unmarshal(r.Response.Raw, &a); err != nil {
			return nil, fmt.Errorf("answer %s: %w", r.Key, err)
		}
		all[r.Key] = a
	}
	return all, nil
}
