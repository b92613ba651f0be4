package wire

import (
	"encoding/json"
	"strings"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// maxStatusMessage bounds the part of a tool's text that a status message repeats.
const maxStatusMessage = 2048

// LegacyTask is the Task of 2025-11-25 (Tasks, Data Types).
type LegacyTask struct {
	TaskID        string             `json:"taskId"`
	Status        v1alpha1.TaskState `json:"status"`
	StatusMessage string             `json:"statusMessage,omitempty"`
	CreatedAt     string             `json:"createdAt"`
	LastUpdatedAt string             `json:"lastUpdatedAt"`
	TTL           *int64             `json:"ttl"`
	PollInterval  int64              `json:"pollInterval"`
}

// NewLegacyTask shows a task as 2025-11-25 has it. There a result with isError is a failure, and a cancelled task is
// cancelled from the moment of the request and whatever the work does then (Tasks, Task Cancellation): the object
// stays the cooperative one that it is.
func NewLegacyTask(object *v1alpha1.McpTask, t *Task) *LegacyTask {
	l := &LegacyTask{
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt, LastUpdatedAt: t.LastUpdatedAt,
		TTL: t.TTLMs, PollInterval: t.PollIntervalMs,
	}
	switch {
	case object.Spec.Cancel != nil:
		l.Status, l.StatusMessage = v1alpha1.TaskCancelled, "The task was cancelled by request."
		if at := object.Spec.Cancel.At; at != nil {
			l.LastUpdatedAt = timestamp(at.Time)
		}
	case t.Status == v1alpha1.TaskCompleted && t.Result.IsError:
		l.Status = v1alpha1.TaskFailed
		if words := spoken(t.Result); words != "" {
			l.StatusMessage = words
		}
		if l.StatusMessage == "" {
			l.StatusMessage = "The tool ended with an error."
		}
	}
	return l
}

// spoken is what a tool says in words: some clients show nothing else of a task that failed.
func spoken(result *CallResult) string {
	var all []string
	for _, raw := range result.Content {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &block) == nil && block.Type == "text" && block.Text != "" {
			all = append(all, block.Text)
		}
	}
	return strings.ToValidUTF8(clip(strings.Join(all, "\n"), maxStatusMessage), "")
}

// LegacyCreateTaskResult answers a call that asked for a task (Tasks, Creating Tasks).
func LegacyCreateTaskResult(t *LegacyTask) ([]byte, error) {
	return json.Marshal(struct {
		Task *LegacyTask  `json:"task"`
		Meta *relatedMeta `json:"_meta"`
	}{t, related(t.TaskID)})
}

// LegacyCallResult is the result of a tool without what came later: it has no resultType, and its structured content is an
// object. task is "" where the client knows of none.
func LegacyCallResult(result *CallResult, task string) ([]byte, error) {
	legacy := struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
		IsError           bool              `json:"isError,omitempty"`
		Meta              json.RawMessage   `json:"_meta,omitempty"`
	}{result.Content, nil, result.IsError, nil}
	if IsObject(result.StructuredContent) {
		legacy.StructuredContent = result.StructuredContent // anything else stands in the content as text
	}
	var err error
	if legacy.Meta, err = withRelated(result.Meta, task); err != nil {
		return nil, err
	}
	return json.Marshal(legacy)
}

// TaskList is the result of tasks/list (Tasks, Listing Tasks). next is "" on the last page.
func TaskList(tasks []*LegacyTask, next string) ([]byte, error) {
	if tasks == nil {
		tasks = []*LegacyTask{}
	}
	return json.Marshal(struct {
		Tasks []*LegacyTask `json:"tasks"`
		Next  string        `json:"nextCursor,omitempty"`
	}{tasks, next})
}
