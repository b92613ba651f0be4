// Package report reads what a Pod tells about its task, and says in words which field is wrong.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	sigsjson "sigs.k8s.io/json"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/report/plain"
	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Outcomes of the work, as a Pod names them.
const (
	OutcomeResult    = "result"
	OutcomeFailed    = "failed"
	OutcomeCancelled = "cancelled"
)

// Bounds of a report; lengths are in characters.
const (
	// MaxBytes is the largest report.
	MaxBytes            = 512 << 10
	maxStateName        = 64
	maxProgressMessage  = 1024
	maxNumber           = 32
	maxErrorMessage     = 4096
	maxErrorDataBytes   = 16 << 10
	lowestReservedCode  = -32099
	highestReservedCode = -32020
)

// Fault is what is wrong with a report.
type Fault struct {
	// Field is the path of the field; "report" is the whole.
	Field string
	// Reason in words.
	Reason string
}

func (f *Fault) Error() string { return f.Field + ": " + f.Reason }

func fault(field, format string, args ...any) *Fault {
	return &Fault{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// body is a report as it is sent.
type body struct {
	Sequence      *int64          `json:"sequence"`
	Progress      *progress       `json:"progress"`
	StateName     string          `json:"stateName"`
	InputRequests []question      `json:"inputRequests"`
	Outcome       string          `json:"outcome"`
	Result        json.RawMessage `json:"result"`
	ResultRef     *resultRef      `json:"resultRef"`
	ResultSize    *int64          `json:"resultSize"`
	Error         *taskError      `json:"error"`
}

// resultRef names a result that was stored before the report was sent.
type resultRef struct {
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	IsError bool   `json:"isError"`
}

type progress struct {
	Current *string `json:"current"`
	Total   string  `json:"total"`
	Message string  `json:"message"`
}

type taskError struct {
	Code    *int32          `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Read reads a report, and of a result in it so many bytes. Whose report it is the caller knows, who also stores the result where it
// has more than fit.MaxInline, and names the Secrets of one that was stored before. Fields of later versions are left out.
// The error is a *Fault.
func Read(text []byte, limit int) (*v1alpha1.RuntimeReport, error) {
	if !utf8.Valid(text) {
		return nil, fault("report", "is not UTF-8")
	}
	var b body
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, &b); err != nil {
		return nil, unreadable(err)
	}
	b.Result = present(b.Result)
	r := &v1alpha1.RuntimeReport{StateName: b.StateName}
	for _, read := range []func(*v1alpha1.RuntimeReport) *Fault{b.readSequence, b.readProgress, b.readStateName, b.readQuestions, b.readOutcome, b.readError} {
		if f := read(r); f != nil {
			return nil, f
		}
	}
	if f := b.readResult(r, limit); f != nil {
		return nil, f
	}
	return r, nil
}

// present takes null for absent.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func unreadable(err error) *Fault {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field != "" {
		return fault(mistyped.Field, "cannot be a JSON %s", mistyped.Value)
	}
	if errors.As(err, &mistyped) {
		return fault("report", "must be a JSON object")
	}
	return fault("report", "is not JSON: %v", err)
}

func (b *body) readSequence(r *v1alpha1.RuntimeReport) *Fault {
	if b.Sequence == nil || *b.Sequence < 1 {
		return fault("sequence", "must be a whole number from 1 on")
	}
	r.Sequence = *b.Sequence
	return nil
}

func (b *body) readProgress(r *v1alpha1.RuntimeReport) *Fault {
	p := b.Progress
	if p == nil {
		return nil
	}
	if p.Current == nil {
		return fault("progress.current", "is missing")
	}
	if !isNumber(*p.Current) {
		return fault("progress.current", "must be a decimal number of at most %d characters", maxNumber)
	}
	if p.Total != "" && !isNumber(p.Total) {
		return fault("progress.total", "must be a decimal number of at most %d characters", maxNumber)
	}
	if n := utf8.RuneCountInString(p.Message); n > maxProgressMessage {
		return fault("progress.message", "has %d characters, more than %d", n, maxProgressMessage)
	}
	r.Progress = &v1alpha1.Progress{Current: *p.Current, Total: p.Total, Message: plain.Line(p.Message)}
	return nil
}

var decimal = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64) // out of range is an error
	return err == nil && len(s) <= maxNumber && decimal.MatchString(s)
}

func (b *body) readStateName(*v1alpha1.RuntimeReport) *Fault {
	if n := utf8.RuneCountInString(b.StateName); n > maxStateName {
		return fault("stateName", "has %d characters, more than %d", n, maxStateName)
	}
	if r, found := plain.Control(b.StateName); found {
		return fault("stateName", "must be plain text in one line, without the character %U", r)
	}
	return nil
}

func (b *body) readOutcome(r *v1alpha1.RuntimeReport) *Fault {
	switch b.Outcome {
	case "", OutcomeResult, OutcomeFailed, OutcomeCancelled:
	default:
		return fault("outcome", "must be %s, %s or %s", OutcomeResult, OutcomeFailed, OutcomeCancelled)
	}
	for _, part := range []struct {
		outcome, field string
		there          bool
	}{{OutcomeResult, "result", len(b.Result) > 0 || b.ResultRef != nil}, {OutcomeFailed, "error", b.Error != nil}} {
		switch {
		case part.there && b.Outcome != part.outcome:
			return fault(part.field, "goes only with the outcome %s", part.outcome)
		case !part.there && b.Outcome == part.outcome:
			return fault(part.field, "is missing; the outcome %s needs it", part.outcome)
		}
	}
	r.Outcome = b.Outcome
	return nil
}

// readResult reads the result, or where it is. resultSize is the bytes of what the program handed over, where its sidecar left out
// some of it.
func (b *body) readResult(r *v1alpha1.RuntimeReport, limit int) *Fault {
	switch {
	case len(b.Result) > 0 && b.ResultRef != nil:
		return fault("resultRef", "does not go with a result that the report holds itself")
	case b.ResultSize != nil && b.Outcome != OutcomeResult:
		return fault("resultSize", "goes only with a result")
	case b.ResultSize != nil && *b.ResultSize < 1:
		return fault("resultSize", "must be a whole number from 1 on")
	case b.ResultRef != nil:
		return b.readRef(r)
	case len(b.Result) == 0:
		return nil
	}
	if f := conform("result", resultSchema, b.Result); f != nil {
		return f
	}
	text, err := canonical(b.Result)
	if err != nil {
		return fault("result", "is not JSON")
	}
	kept, err := fit.Result(text, limit)
	if err != nil {
		return fault("result", "%v", err)
	}
	r.Result = &v1alpha1.TaskResult{
		Inline: &runtime.RawExtension{Raw: kept.Raw}, Size: kept.Size, SHA256: resultsecret.Hash(kept.Raw),
		Truncated: kept.Truncated, IsError: kept.IsError,
	}
	b.readSize(r)
	return nil
}

// readRef reads where a result is that was handed over before the report.
func (b *body) readRef(r *v1alpha1.RuntimeReport) *Fault {
	ref := b.ResultRef
	switch {
	case !resultsecret.ValidHash(ref.SHA256):
		return fault("resultRef.sha256", "must be a SHA-256 in lower-case hex")
	case ref.Bytes < 1 || ref.Bytes > resultsecret.MaxBytes:
		return fault("resultRef.bytes", "must be from 1 to %d", resultsecret.MaxBytes)
	}
	r.Result = &v1alpha1.TaskResult{
		SecretRef: &v1alpha1.SecretReference{Parts: resultsecret.Parts(ref.Bytes)}, Size: ref.Bytes, SHA256: ref.SHA256, IsError: ref.IsError,
	}
	b.readSize(r)
	return nil
}

func (b *body) readSize(r *v1alpha1.RuntimeReport) {
	if b.ResultSize != nil {
		r.Result.Size, r.Result.Truncated = max(r.Result.Size, *b.ResultSize), true
	}
}

func (b *body) readError(r *v1alpha1.RuntimeReport) *Fault {
	e := b.Error
	if e == nil {
		return nil
	}
	if e.Code == nil {
		return fault("error.code", "is missing")
	}
	if reserved(*e.Code) {
		return fault("error.code", "must not be %d, which has a meaning of its own in MCP or JSON-RPC; -32000 is free, and -32603 means an internal error", *e.Code)
	}
	if n := utf8.RuneCountInString(e.Message); n == 0 || n > maxErrorMessage {
		return fault("error.message", "must have from 1 to %d characters, not %d", maxErrorMessage, n)
	}
	r.Error = &v1alpha1.TaskError{Code: *e.Code, Message: e.Message}
	if e.Data = present(e.Data); len(e.Data) == 0 {
		return nil
	}
	if len(e.Data) > maxErrorDataBytes {
		return fault("error.data", "has %d bytes, more than %d", len(e.Data), maxErrorDataBytes)
	}
	if f := conform("error.data", nil, e.Data); f != nil {
		return f
	}
	text, err := canonical(e.Data)
	if err != nil || text[0] != '{' {
		return fault("error.data", "must be a JSON object")
	}
	r.Error.Data = &runtime.RawExtension{Raw: text}
	return nil
}

// reserved says whether a code means something that no tool can say: the codes that MCP sets aside (2026-07-28, Errors;
// 2025-11-25, resource not found and URL elicitation required), and those of JSON-RPC but for invalid parameters and
// internal errors.
func reserved(code int32) bool {
	switch code {
	case -32700, -32600, -32601, -32002, -32042:
		return true
	}
	return lowestReservedCode <= code && code <= highestReservedCode
}

// conform checks a value against a schema, if there is one, and for numbers that would not be stored as they are.
func conform(field string, schema *toolschema.Schema, raw json.RawMessage) *Fault {
	err := toolschema.CheckNumbers(raw)
	if err == nil && schema != nil {
		err = schema.Validate(raw)
	}
	var mismatch *toolschema.Mismatch
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch) && len(mismatch.Faults) > 0:
		// The first says what to mend; a path of JSON pointer's form continues the field's.
		first := mismatch.Faults[0]
		return fault(field+path(first.Pointer), "%s", first.Reason)
	}
	return fault(field, "%v", err)
}
