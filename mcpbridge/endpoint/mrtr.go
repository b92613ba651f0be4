package endpoint

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// sealState is the purpose for which the state of a multi round-trip request is sealed.
	sealState = "tools/call"
	// stateLife is how long a person may take to answer before the call must be made anew.
	stateLife = 24 * time.Hour
)

// callState is what a tools/call that was answered with questions carries to its next try (2026-07-28, Multi Round-Trip
// Requests): whose it is, which call it belongs to, and how far it has come.
type callState struct {
	Principal v1alpha1.Identity `json:"principal"`
	Namespace string            `json:"namespace"`
	Tool      string            `json:"tool"`
	Arguments string            `json:"arguments"` // their digest
	// Nonce makes each state another: clients tell rounds apart by it.
	Nonce string `json:"nonce"`
	// Task that the call waits for, once there is one.
	Task string `json:"task,omitempty"`
	// Answers to the questions before the task, by the name of the argument that each becomes.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
}

// newState is the state of a call that has not come far.
func newState(x *exchange, tool *tools.Tool) *callState {
	return &callState{
		Principal: x.principal.Identity, Namespace: x.namespace, Tool: tool.Object.Name, Arguments: digest(sentArguments(x)),
		Answers: map[string]json.RawMessage{},
	}
}

// sentArguments are the arguments as the caller sent them.
func sentArguments(x *exchange) json.RawMessage {
	if len(x.request.Params.Arguments) == 0 {
		return json.RawMessage(`{}`)
	}
	return x.request.Params.Arguments
}

// readState is the state that the call carries, or a new one. It is the caller's text: one that is not of this very call is refused.
func (e *Endpoint) readState(x *exchange, tool *tools.Tool) (*callState, *wire.Error) {
	fresh := newState(x, tool)
	if len(x.request.Params.RequestState) == 0 {
		return fresh, nil
	}
	text, ok := wire.Text(x.request.Params.RequestState)
	if !ok {
		return nil, wire.InvalidParams("params.requestState must be a string")
	}
	carried := callState{}
	if err := e.Keys.Open(sealState, text, &carried); err != nil {
		return nil, wire.InvalidParams("params.requestState: was not made by this server, or is too old; make the call anew without it")
	}
	if carried.Principal != fresh.Principal || carried.Namespace != fresh.Namespace {
		e.deny(x, carried.Task, "requestState of another caller")
		return nil, wire.InvalidParams("params.requestState: was not made by this server, or is too old; make the call anew without it")
	}
	if carried.Tool != fresh.Tool || carried.Arguments != fresh.Arguments {
		return nil, wire.InvalidParams("params.requestState: belongs to a call of another tool or with other arguments")
	}
	if carried.Answers == nil {
		carried.Answers = map[string]json.RawMessage{}
	}
	return &carried, nil
}

// inputRequired answers a call with questions, and with the state that its next try brings back.
func (e *Endpoint) inputRequired(x *exchange, state *callState, questions map[string]wire.InputPrompt) (*answer, *wire.Error) {
	state.Nonce = rand.Text()
	sealed, err := e.Keys.Seal(sealState, state, stateLife)
	if err != nil {
		return nil, e.internal(x, err)
	}
	object, err := wire.InputRequiredResult(questions, sealed)
	if err != nil {
		return nil, e.internal(x, err)
	}
	a, err := newAnswer(object, nil)
	if err != nil {
		return nil, e.internal(x, err)
	}
	return a, nil
}

// resume goes on with a call whose Job had asked: it stores the answers that the call brings.
func (e *Endpoint) resume(x *exchange, id string) (*v1alpha1.McpTask, *wire.Error) {
	task, failure := e.own(x, id)
	if failure != nil {
		return nil, failure
	}
	if len(x.request.Params.InputResponses) == 0 {
		return task, nil
	}
	responses, ok := wire.ReadResponses(x.request.Params.InputResponses)
	if !ok {
		return nil, wire.InvalidParams("params.inputResponses must be an object, with each key once")
	}
	if failure := e.answer(x, task, responses); failure != nil {
		return nil, failure
	}
	return task, nil
}

// preflight collects what the tool asks before there is a task. It returns the arguments with the answers in them, or what
// is left to ask. An argument that the caller gives by itself is not asked for.
func (e *Endpoint) preflight(x *exchange, tool *tools.Tool, state *callState) (json.RawMessage, *answer, *wire.Error) {
	arguments := sentArguments(x)
	if len(tool.Object.Spec.Preflight) == 0 {
		return arguments, nil, nil
	}
	if err := checkArguments(arguments, tool.Input); err != nil {
		return nil, nil, wire.InvalidArguments(err) // before anybody is asked in vain
	}
	responses := map[string]json.RawMessage{}
	if raw := x.request.Params.InputResponses; len(raw) > 0 {
		var ok bool
		if responses, ok = wire.ReadResponses(raw); !ok {
			return nil, nil, wire.InvalidParams("params.inputResponses must be an object, with each key once")
		}
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return nil, nil, wire.InvalidParams("params.arguments must be an object")
	}
	open := map[string]wire.InputPrompt{}
	for _, q := range tool.Object.Spec.Preflight {
		if value, given := fields[q.Name]; given {
			if failure := checkGiven(q, value); failure != nil {
				return nil, nil, failure
			}
			continue
		}
		if response, ok := responses[q.Name]; ok {
			question := preflightQuestion(q)
			if failure := wire.CheckResponse(question, response, "inputResponses/"+q.Name); failure != nil {
				return nil, nil, failure
			}
			action, content := wire.ReadResponse(response)
			if action != wire.ActionAccept {
				refused, failure := e.resultAnswer(x, wire.ErrorResult(fmt.Sprintf("No task was made: the question %q was answered with %s.", q.Name, action)))
				return nil, refused, failure
			}
			state.Answers[q.Name] = content
		}
		if content, ok := state.Answers[q.Name]; ok {
			fields[q.Name] = content
			continue
		}
		question := preflightQuestion(q)
		open[q.Name] = wire.InputPrompt{Method: question.Method, Params: question.Params.Raw}
	}
	if len(open) > 0 {
		if !x.request.Params.Meta.Elicitation.Form {
			return nil, nil, wire.MissingElicitation(wire.Elicitation{Form: true})
		}
		questions, failure := e.inputRequired(x, state, open)
		return nil, questions, failure
	}
	whole, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, e.internal(x, err)
	}
	return whole, nil, nil
}

// checkGiven says whether an argument that was given by the caller itself would do as the answer to its question.
func checkGiven(q v1alpha1.PreflightQuestion, value json.RawMessage) *wire.Error {
	return wire.CheckContent(preflightQuestion(q), value, "arguments/"+q.Name)
}

// preflightQuestion is a question that a tool asks before there is a task, in the form of those that a Job asks.
func preflightQuestion(q v1alpha1.PreflightQuestion) v1alpha1.InputRequest {
	params, _ := json.Marshal(struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}{wire.ModeForm, q.Message, q.Schema.Raw}) // the schema was stored as JSON
	return v1alpha1.InputRequest{Key: q.Name, Method: "elicitation/create", Params: runtime.RawExtension{Raw: params}}
}
