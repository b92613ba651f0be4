package endpoint

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// toolPage is how many tools one answer of tools/list holds.
	toolPage = 100
	// longestTTL is what a caller gets who asks for more, of a tool that has no bound of its own.
	longestTTL = 100 * 365 * 24 * time.Hour
)

const sealTools = "tools/list"

// serveLegacyTools answers tools/list.
func (e *Endpoint) serveLegacyTools(x *exchange) {
	after, failure := openCursor[string](e, x, sealTools)
	if failure != nil {
		x.fail(failure)
		return
	}
	offered := e.Tools.List(x.namespace)
	if after != nil {
		first, found := slices.BinarySearchFunc(offered, *after, func(tool *tools.Tool, name string) int { return strings.Compare(tool.Name(), name) })
		if found {
			first++
		}
		offered = offered[first:]
	}
	offered, failure = callable(e, x, offered, (*tools.Tool).Name)
	if failure != nil {
		x.fail(failure)
		return
	}
	page := struct {
		Tools []json.RawMessage `json:"tools"`
		Next  string            `json:"nextCursor,omitempty"`
	}{Tools: []json.RawMessage{}}
	var err error
	if len(offered) > toolPage {
		offered = offered[:toolPage]
		if page.Next, err = e.Keys.Seal(sealTools, offered[toolPage-1].Name(), cursorLife); err != nil {
			x.fail(e.internal(x, err))
			return
		}
	}
	for _, tool := range offered {
		shown, err := tool.Legacy(wire.LegacyTasks(x.session.Version))
		if err != nil {
			x.fail(e.internal(x, err))
			return
		}
		page.Tools = append(page.Tools, shown)
	}
	x.reply(e, page, nil)
}

// serveLegacyCall answers tools/call: with a task where the caller asked for one, else with the result, once there is one.
func (e *Endpoint) serveLegacyCall(x *exchange) {
	e.calls.Add(1)
	defer e.calls.Done()
	tool := x.tool
	if tool == nil {
		x.fail(unknownTool(x))
		return
	}
	task, asTask, failure := newLegacyTask(x, tool)
	if failure != nil {
		x.fail(failure)
		return
	}
	var limit time.Duration
	if !asTask {
		var release func()
		if limit, release, failure = e.reserve(x, tool); failure != nil {
			x.fail(failure)
			return
		}
		defer release()
	}
	if task, failure = e.createOnce(x, tool, task, x.request.Params.Meta.IdempotencyKey); failure != nil {
		x.fail(failure)
		return
	}
	if asTask {
		e.replyHandle(x, task)
		return
	}
	e.followCall(x, task, limit)
}

// newLegacyTask is the task of a call, and whether the caller takes its handle.
func newLegacyTask(x *exchange, tool *tools.Tool) (*v1alpha1.McpTask, bool, *wire.Error) {
	// A receiver without tasks ignores that one is asked for (2025-11-25, Tasks, Task Support and Handling).
	asTask := len(x.request.Params.Task) > 0 && wire.LegacyTasks(x.session.Version)
	support := tool.TaskSupport()
	if asTask && support == v1alpha1.TaskSupportForbidden {
		return nil, false, notThisWay("The tool " + tool.Name() + " cannot be called as a task: leave params.task out")
	}
	if !asTask && support == v1alpha1.TaskSupportRequired {
		return nil, false, notThisWay("The tool " + tool.Name() + " can only be called as a task: this needs params.task, which the protocol version " + wire.Version20251125 + " has")
	}
	if missing := tool.Asks().Without(x.request.Params.Meta.Elicitation); missing != (wire.Elicitation{}) {
		failure := wire.MissingElicitation(missing) // the code for it came later
		failure.Code, failure.Data = wire.CodeInvalidParams, nil
		return nil, false, failure
	}
	if failure := checkParameters(x); failure != nil {
		return nil, false, failure
	}
	arguments := sentArguments(x)
	if failure := checkPreflight(tool, arguments); failure != nil {
		return nil, false, failure
	}
	task, failure := newTask(x, tool, arguments)
	if failure != nil || !asTask {
		return task, asTask, failure
	}
	if failure := setTTL(task, tool, x.request.Params.Task); failure != nil {
		return nil, false, failure
	}
	metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationSession, x.session.ID)
	return task, true, nil
}

// notThisWay refuses a call with or without a task (2025-11-25, Tasks, Tool-Level Negotiation).
func notThisWay(message string) *wire.Error {
	return &wire.Error{Code: wire.CodeMethodNotFound, Message: message}
}

// checkPreflight refuses a call that leaves a question open that the tool asks before there is a task: there is no place
// where its answer could be kept, which may come in at any replica.
func checkPreflight(tool *tools.Tool, arguments json.RawMessage) *wire.Error {
	if len(tool.Object.Spec.Preflight) == 0 {
		return nil
	}
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(arguments, &given); err != nil {
		return wire.InvalidParams("params.arguments must be an object")
	}
	for _, q := range tool.Object.Spec.Preflight {
		value, ok := given[q.Name]
		if !ok {
			return wire.InvalidParams(fmt.Sprintf("params.arguments.%s is missing; it is the answer, as an object, to: %s", q.Name, q.Message))
		}
		if failure := checkGiven(q, value); failure != nil {
			return failure
		}
	}
	return nil
}

// setTTL gives a task the life that its caller asks for, as far as the tool lets it.
func setTTL(task *v1alpha1.McpTask, tool *tools.Tool, raw json.RawMessage) *wire.Error {
	var asked struct {
		TTL json.RawMessage `json:"ttl"`
	}
	if !wire.IsObject(raw) || json.Unmarshal(raw, &asked) != nil {
		return wire.InvalidParams("params.task must be an object")
	}
	if len(asked.TTL) == 0 || string(asked.TTL) == "null" {
		return nil // newTask has set the default
	}
	var milliseconds float64
	if err := json.Unmarshal(asked.TTL, &milliseconds); err != nil || milliseconds < 1 || milliseconds != math.Trunc(milliseconds) {
		return wire.InvalidParams("params.task.ttl must be a positive number of whole milliseconds")
	}
	longest := longestTTL
	if policy := tool.Object.Spec.TTL; policy != nil && policy.Max != nil {
		longest = policy.Max.Duration
	}
	ttl := longest
	if milliseconds < float64(longest.Milliseconds()) {
		ttl = time.Duration(milliseconds) * time.Millisecond
	}
	task.Spec.TTL = &metav1.Duration{Duration: ttl}
	return nil
}

// replyHandle answers a call with its task.
func (e *Endpoint) replyHandle(x *exchange, task *v1alpha1.McpTask) {
	shown, err := e.legacyTask(x, task)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	result, err := wire.LegacyCreateTaskResult(shown)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	x.result(result)
}
