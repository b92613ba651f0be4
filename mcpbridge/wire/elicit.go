package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// What a person does with a question (Elicitation, Response Actions).
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// maxResponseBytes bounds one answer, which is stored with its task.
const maxResponseBytes = 32 << 10

// CheckResponse says whether a client's answer to a question can be taken: an ElicitResult whose content, if the form was
// accepted, fits the form. The error is about the answer that stands at the place at, e.g. inputResponses/KEY.
func CheckResponse(q v1alpha1.InputRequest, response json.RawMessage, at string) *Error {
	if len(response) > maxResponseBytes {
		return InvalidParams(fmt.Sprintf("%s: is longer than %d bytes", at, maxResponseBytes))
	}
	var result struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if duplicates, err := sigsjson.UnmarshalStrict(response, &result, sigsjson.DisallowDuplicateFields); !IsObject(response) || err != nil || len(duplicates) > 0 {
		return InvalidParams(at + ": must be an object with action and, where it is accept, content")
	}
	switch result.Action {
	case ActionDecline, ActionCancel:
	case ActionAccept:
		if Mode(q) == ModeURL {
			break // what happens at the URL does not pass through here
		}
		if failure := CheckContent(q, result.Content, at+"/content"); failure != nil {
			return failure
		}
	default:
		return InvalidParams(at + "/action: must be accept, decline or cancel")
	}
	if err := toolschema.CheckNumbers(response); err != nil {
		return InvalidParams(at + err.Error())
	}
	return nil
}

// ReadResponse is the action and the content of an answer that CheckResponse has let pass.
func ReadResponse(response json.RawMessage) (action string, content json.RawMessage) {
	var result struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(response, &result) // it was read before
	return result.Action, result.Content
}

// CheckContent says whether the content fits the form of the question. The error is about the place at.
func CheckContent(q v1alpha1.InputRequest, content json.RawMessage, at string) *Error {
	var params struct {
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if err := json.Unmarshal(q.Params.Raw, &params); err != nil {
		return InvalidParams(at + ": the question cannot be read, so that no answer fits it; cancel it")
	}
	if !IsObject(content) {
		return InvalidParams(at + ": must be an object with the values of the form")
	}
	form, err := toolschema.CompileForm(params.Schema)
	if err != nil {
		return InvalidParams(at + ": the form of the question cannot be read, so that no answer fits it; cancel it")
	}
	if name, ok := nested(content); ok {
		return InvalidParams(at + "/" + name + ": must be a string, a number, a boolean or a list of strings")
	}
	err = form.Validate(content)
	var mismatch *toolschema.Mismatch
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &mismatch):
		return InvalidParams(at + ": cannot be checked")
	}
	return mismatchError("Invalid answer: ", at, mismatch)
}

// nested finds a value that no form can have (2026-07-28, schema, ElicitResult).
func nested(content json.RawMessage) (string, bool) {
	var values map[string]any
	if err := json.Unmarshal(content, &values); err != nil {
		return "", false // whether it fits the form is checked next
	}
	for name, value := range values {
		switch v := value.(type) {
		case string, float64, bool:
			continue
		case []any:
			if !slices.ContainsFunc(v, func(item any) bool { _, ok := item.(string); return !ok }) {
				continue
			}
		}
		return name, true
	}
	return "", false
}

// NormalResponse is an answer that CheckResponse has let pass, without what does not belong there.
func NormalResponse(q v1alpha1.InputRequest, response json.RawMessage) json.RawMessage {
	action, content := ReadResponse(response)
	if action != ActionAccept || Mode(q) == ModeURL {
		content = nil
	}
	normal, err := json.Marshal(struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content,omitempty"`
	}{action, content})
	if err != nil {
		return response // it was read before: this does not happen
	}
	return normal
}

// mismatchError names the places that do not fit, for people and for programs. at is the place of the whole value.
func mismatchError(what, at string, mismatch *toolschema.Mismatch) *Error {
	type fault struct {
		Pointer string `json:"pointer"`
		Reason  string `json:"reason"`
	}
	data := struct {
		Faults []fault `json:"faults"`
		More   int     `json:"more"`
	}{Faults: []fault{}, More: mismatch.More}
	placed := toolschema.Mismatch{More: mismatch.More}
	for _, f := range mismatch.Faults {
		f.Pointer = at + f.Pointer
		placed.Faults = append(placed.Faults, f)
		data.Faults = append(data.Faults, fault(f))
	}
	failure := InvalidParams(what + placed.Error())
	failure.Data, _ = json.Marshal(data) // strings and numbers always marshal
	return failure
}

// InvalidArguments names the arguments that do not fit their tool.
func InvalidArguments(err error) *Error {
	var mismatch *toolschema.Mismatch
	if !errors.As(err, &mismatch) {
		return InvalidParams("Invalid arguments")
	}
	return mismatchError("Invalid arguments: ", "", mismatch)
}

// ReadResponses reads the answers of a client, by the keys of their questions; false when they are no object.
func ReadResponses(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	responses := map[string]json.RawMessage{}
	if !IsObject(raw) {
		return nil, false
	}
	duplicates, err := sigsjson.UnmarshalStrict(raw, &responses, sigsjson.DisallowDuplicateFields)
	return responses, err == nil && len(duplicates) == 0
}

// MissingElicitation says that the client cannot put the questions of a tool to its user (Overview, Error Codes).
func MissingElicitation(needed Elicitation) *Error {
	modes := map[string]struct{}{}
	var names []string
	if needed.Form {
		modes[ModeForm] = struct{}{}
		names = append(names, "elicitation.form")
	}
	if needed.URL {
		modes[ModeURL] = struct{}{}
		names = append(names, "elicitation.url")
	}
	failure := newError(CodeMissingCapability, "Missing required client capability: this tool may ask its caller questions, which needs "+strings.Join(names, " and "))
	failure.Data, _ = json.Marshal(map[string]any{"requiredCapabilities": map[string]any{"elicitation": modes}}) // always marshals
	return failure
}
