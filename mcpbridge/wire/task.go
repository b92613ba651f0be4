package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Result types (2026-07-28, Overview, ResultType; tasks, Polymorphic Results).
const (
	resultComplete = "complete"
	resultTask     = "task"

	resultInputRequired = "input_required"
)

// defaultPollInterval is what a task whose tool is gone suggests.
const defaultPollInterval = 2 * time.Second

// Tool is what the payloads of a task take from its tool. The zero value stands for a tool that is gone.
type Tool struct {
	// PollInterval that clients should keep to; 0 means the default.
	PollInterval time.Duration
	// Output is the schema of the structured result, nil without one.
	Output *toolschema.Schema
}

// Task is MCP's DetailedTask (tasks, Task Status).
type Task struct {
	TaskID         string                 `json:"taskId"`
	Status         v1alpha1.TaskState     `json:"status"`
	StatusMessage  string                 `json:"statusMessage,omitempty"`
	CreatedAt      string                 `json:"createdAt"`
	LastUpdatedAt  string                 `json:"lastUpdatedAt"`
	TTLMs          *int64                 `json:"ttlMs"`
	PollIntervalMs int64                  `json:"pollIntervalMs"`
	InputRequests  map[string]InputPrompt `json:"inputRequests,omitzero"`
	Result         *CallResult            `json:"result,omitempty"`
	Error          *Error                 `json:"error,omitempty"`
}

// InputPrompt is one question to the client.
type InputPrompt struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// NewTask is the one builder of what is said about a task: for tasks/get, for notifications and for synchronous answers.
// Of the questions it shows those that the client can put to its user. result is the task's, as JSON.
func NewTask(task *v1alpha1.McpTask, tool Tool, client Elicitation, result []byte) *Task {
	t := outline(task, tool, client)
	if t.Status == v1alpha1.TaskCompleted {
		t.Result = newCallResult(task.Status.Result, result, tool.Output)
	}
	return t
}

// NewBrief is the same for those who do not show the result: all that it has of it is whether it is an error.
func NewBrief(task *v1alpha1.McpTask, tool Tool, client Elicitation) *Task {
	t := outline(task, tool, client)
	if t.Status == v1alpha1.TaskCompleted {
		t.Result = &CallResult{IsError: task.Status.Result == nil || task.Status.Result.IsError}
	}
	return t
}

// outline is what is said about a task, but for its result.
func outline(task *v1alpha1.McpTask, tool Tool, client Elicitation) *Task {
	t := &Task{
		TaskID:         task.Name,
		Status:         task.Status.State,
		StatusMessage:  task.Status.Message,
		CreatedAt:      timestamp(task.CreationTimestamp.Time),
		LastUpdatedAt:  timestamp(task.CreationTimestamp.Time),
		TTLMs:          ttl(task),
		PollIntervalMs: defaultPollInterval.Milliseconds(),
	}
	if tool.PollInterval > 0 {
		t.PollIntervalMs = tool.PollInterval.Milliseconds()
	}
	if updated := task.Status.LastUpdatedAt; updated != nil {
		t.LastUpdatedAt = timestamp(updated.Time)
	}
	if task.Spec.Cancel != nil && !task.Status.State.Terminal() {
		// Whatever the controller has seen of it: what this replica stored, it shows.
		t.Status = v1alpha1.TaskWorking
		if task.Status.Reason != v1alpha1.ReasonCancelling {
			t.StatusMessage = "The task was asked to end."
		}
		return t
	}
	switch task.Status.State {
	case "":
		t.Status = v1alpha1.TaskWorking
		if t.StatusMessage == "" {
			t.StatusMessage = "Accepted; waiting for the controller to start the work."
		}
	case v1alpha1.TaskInputRequired:
		t.ask(Outstanding(task), client)
	case v1alpha1.TaskFailed:
		t.Error = taskError(task)
		if t.StatusMessage == "" {
			t.StatusMessage = t.Error.Message
		}
	}
	return t
}

// ResultBytes is the size of the result.
func (t *Task) ResultBytes() (size int64) {
	if t.Result == nil {
		return 0
	}
	for _, block := range t.Result.Content {
		size += int64(len(block))
	}
	return size + int64(len(t.Result.StructuredContent)+len(t.Result.Meta))
}

// ask shows questions. A task whose every question has an answer already works on, whether or not the controller has
// seen the last one; one whose questions this client cannot put to its user says so.
func (t *Task) ask(open []v1alpha1.InputRequest, client Elicitation) {
	if len(open) == 0 {
		t.Status, t.StatusMessage = v1alpha1.TaskWorking, "The answer is stored and on its way to the tool."
		return
	}
	t.InputRequests = map[string]InputPrompt{}
	for _, q := range open {
		if client.Can(Mode(q)) {
			t.InputRequests[q.Key] = InputPrompt{Method: q.Method, Params: q.Params.Raw}
		}
	}
	if hidden := len(open) - len(t.InputRequests); hidden > 0 {
		t.StatusMessage = strings.TrimSpace(fmt.Sprintf("%s (%d of %d questions are not shown: this client does not declare the elicitation mode that they need)",
			t.StatusMessage, hidden, len(open)))
	}
}

// Outstanding are the questions that have no answer yet, in the order in which they were asked: an answer counts from the
// moment it is stored. A task that was asked to end waits for no answer.
func Outstanding(task *v1alpha1.McpTask) []v1alpha1.InputRequest {
	if task.Spec.Cancel != nil {
		return nil
	}
	answered := map[string]bool{}
	for _, answer := range task.Spec.InputResponses {
		answered[answer.Key] = true
	}
	var open []v1alpha1.InputRequest
	for _, q := range task.Status.InputRequests {
		if !q.Answered && !answered[q.Key] {
			open = append(open, q)
		}
	}
	return open
}

// Mode of a question: form or url.
func Mode(q v1alpha1.InputRequest) string {
	var params struct {
		Mode string `json:"mode"`
	}
	if err := json.Unmarshal(q.Params.Raw, &params); err != nil || params.Mode == "" {
		return ModeForm
	}
	return params.Mode
}

// taskError is the JSON-RPC error of a failed task, which must have one (tasks, Task Execution Errors).
func taskError(task *v1alpha1.McpTask) *Error {
	e := &Error{Code: CodeInternalError, Message: task.Status.Message}
	if stored := task.Status.Error; stored != nil {
		e.Code, e.Message = int64(stored.Code), stored.Message
		if stored.Data != nil {
			e.Data = stored.Data.Raw
		}
	}
	if e.Message == "" {
		e.Message = "The task failed"
	}
	return e
}

// ttl is the life of the task in milliseconds from its creation, nil when unlimited. Once the task has ended it is
// what expiresAt says, because nothing is deleted before that.
func ttl(task *v1alpha1.McpTask) *int64 {
	var life time.Duration
	switch {
	case task.Status.State.Terminal() && task.Status.ExpiresAt != nil:
		life = max(task.Status.ExpiresAt.Sub(task.CreationTimestamp.Time), 0)
	case task.Spec.TTL != nil:
		life = task.Spec.TTL.Duration
	default:
		return nil
	}
	ms := life.Milliseconds()
	return &ms
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ServerInfo names the server in results.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type resultMeta struct {
	ServerInfo ServerInfo `json:"io.modelcontextprotocol/serverInfo"`
}

// GetTaskResult is the result of tasks/get (tasks, Task Polling). fields are the part of it that is the DetailedTask:
// its fields, without the braces.
func GetTaskResult(t *Task, server ServerInfo) (result, fields []byte, err error) {
	object, err := json.Marshal(t)
	if err != nil {
		return nil, nil, err
	}
	meta, err := json.Marshal(resultMeta{server})
	if err != nil {
		return nil, nil, err
	}
	const head, middle = `{"resultType":"` + resultComplete + `",`, `,"_meta":`
	result = make([]byte, 0, len(head)+len(object)+len(middle)+len(meta))
	result = append(result, head...)
	result = append(result, object[1:len(object)-1]...)
	end := len(result)
	result = append(append(append(result, middle...), meta...), '}')
	return result, result[len(head):end:end], nil
}

// CreateTaskResult is the answer of tools/call with a handle (tasks, Task Creation): the seed of the task, and
// neither its questions nor its result.
func CreateTaskResult(t *Task) ([]byte, error) {
	seed := *t
	seed.InputRequests, seed.Result, seed.Error = nil, nil, nil
	return json.Marshal(struct {
		ResultType string `json:"resultType"`
		*Task
	}{resultTask, &seed})
}

// InputRequiredResult is the answer to a call that needs its caller's answers first (Multi Round-Trip Requests,
// InputRequiredResult).
func InputRequiredResult(questions map[string]InputPrompt, state string) ([]byte, error) {
	return json.Marshal(struct {
		ResultType    string                 `json:"resultType"`
		InputRequests map[string]InputPrompt `json:"inputRequests"`
		RequestState  string                 `json:"requestState"`
	}{resultInputRequired, questions, state})
}

// Acknowledgement is the result of tasks/update and tasks/cancel: complete and empty.
func Acknowledgement(server ServerInfo) ([]byte, error) {
	return json.Marshal(struct {
		ResultType string     `json:"resultType"`
		Meta       resultMeta `json:"_meta"`
	}{resultComplete, resultMeta{server}})
}
