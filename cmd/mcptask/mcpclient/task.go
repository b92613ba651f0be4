package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Status is the status of a task (tasks, Task Status).
type Status string

const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Terminal says whether the status is final.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is what a server says about a task.
type Task struct {
	ID            string    `json:"taskId"`
	Status        Status    `json:"status"`
	StatusMessage string    `json:"statusMessage"`
	CreatedAt     time.Time `json:"createdAt"`
	LastUpdatedAt time.Time `json:"lastUpdatedAt"`
	// TTLMs is how long the task may live, in milliseconds from its creation; nil is unlimited.
	TTLMs *int64 `json:"ttlMs"`
	// PollIntervalMs is how often the server wants to be asked, in milliseconds; 0 when it does not say.
	PollIntervalMs int64 `json:"pollIntervalMs"`
	// InputRequests are the questions that are open, while the status is InputRequired.
	InputRequests map[string]InputRequest `json:"inputRequests"`
	// Result is there once the status is Completed.
	Result *ToolResult `json:"result"`
	// Error is there once the status is Failed.
	Error *RPCError `json:"error"`

	// Raw is the JSON object as it was received.
	Raw json.RawMessage `json:"-"`
}

// InputRequest is a question of the server, for instance elicitation/create.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Task) UnmarshalJSON(raw []byte) error {
	type fields Task
	if err := json.Unmarshal(raw, (*fields)(t)); err != nil {
		return err
	}
	t.Raw = bytes.Clone(raw)
	switch {
	case t.ID == "":
		return fmt.Errorf("the task has no taskId")
	case t.Status == Completed && t.Result == nil:
		return fmt.Errorf("task %s is completed but has no result", t.ID)
	case t.Status == Failed && t.Error == nil:
		return fmt.Errorf("task %s has failed but has no error", t.ID)
	}
	return nil
}

// ToolResult is what a tool gave back (Tools, Tool Result).
type ToolResult struct {
	Content []Content `json:"content"`
	// StructuredContent is nil when there is none.
	StructuredContent json.RawMessage `json:"structuredContent"`
	// IsError says that the tool ran and failed.
	IsError bool `json:"isError"`

	// Raw is the JSON object as it was received.
	Raw json.RawMessage `json:"-"`
}

// Content is one block of a result. Which fields are there depends on the type; Raw of the result has them all.
type Content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MIMEType string `json:"mimeType"`
	Name     string `json:"name"`
	URI      string `json:"uri"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *ToolResult) UnmarshalJSON(raw []byte) error {
	type fields ToolResult
	if err := json.Unmarshal(raw, (*fields)(r)); err != nil {
		return err
	}
	r.Raw = bytes.Clone(raw)
	return nil
}

// getTimeout bounds one look at a task: it needs no waiting on the server's side.
const getTimeout = 30 * time.Second

// GetTask looks at a task. For a task that the server does not know the error is an RPCError with CodeInvalidParams.
func (c *Client) GetTask(ctx context.Context, id string) (*Task, error) {
	limited, stop := context.WithTimeout(ctx, getTimeout)
	defer stop()
	task := &Task{}
	err := c.call(limited, request{method: "tasks/get", name: id, params: map[string]any{"taskId": id}}, task)
	if err != nil {
		return nil, err
	}
	return task, nil
}

// CancelTask asks for the end of a task. The task may go on for a while, and may still end otherwise.
func (c *Client) CancelTask(ctx context.Context, id string) error {
	var acknowledgement struct{}
	return c.call(ctx, request{method: "tasks/cancel", name: id, params: map[string]any{"taskId": id}}, &acknowledgement)
}
