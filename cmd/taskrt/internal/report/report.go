// Package report has the words in which a Pod and its task speak with each other over the bridge's runtime port.
package report

import "encoding/json"

// Bounds of a report. The bridge holds every report to them; here they are checked first, so that the program that goes
// beyond them is told at once.
const (
	MaxBytes         = 512 << 10 // of a whole report, as JSON
	MaxOpenQuestions = 64
	MaxQuestions     = 256
	MaxParamsBytes   = 16 << 10  // of one question
	MaxAllParams     = 256 << 10 // of all questions
	MaxStateName     = 64        // characters
	MaxMessage       = 1024      // characters of a progress message
	MaxErrorMessage  = 4096      // characters
)

// Report is all that a Pod tells about its work. It is always sent whole; a larger sequence replaces a smaller one.
type Report struct {
	Sequence      int64           `json:"sequence"`
	Progress      *Progress       `json:"progress,omitempty"`
	StateName     string          `json:"stateName,omitempty"`
	InputRequests []InputRequest  `json:"inputRequests,omitempty"`
	Outcome       string          `json:"outcome,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"`
	// ResultRef names a result that was stored before, instead.
	ResultRef *ResultRef `json:"resultRef,omitempty"`
	// ResultSize is the size in bytes of what the program handed over, where some of it was left out of Result.
	ResultSize int64  `json:"resultSize,omitempty"`
	Error      *Error `json:"error,omitempty"`
}

// ResultRef names a result that is too large for a report.
type ResultRef struct {
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	IsError bool   `json:"isError,omitempty"`
}

// How a program may say that its work ended.
const (
	OutcomeResult    = "result"
	OutcomeFailed    = "failed"
	OutcomeCancelled = "cancelled"
)

// Progress is how far the work is. The amounts are decimal numbers.
type Progress struct {
	Current string `json:"current"`
	Total   string `json:"total,omitempty"`
	Message string `json:"message,omitempty"`
}

// InputRequest is one question.
type InputRequest struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Error is the JSON-RPC error of work that failed.
type Error struct {
	Code    int32           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Answers are all answers that the task has. Their number only grows.
type Answers struct {
	Count   int      `json:"count"`
	Answers []Answer `json:"answers"`
}

// Answer is the answer to the question with that key.
type Answer struct {
	Key      string          `json:"key"`
	Response json.RawMessage `json:"response"`
}
