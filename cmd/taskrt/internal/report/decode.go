package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// DecodeAnswers reads the answers that the runtime port sent.
func DecodeAnswers(data []byte) (*Answers, error) {
	var answers Answers
	if err := json.Unmarshal(data, &answers); err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	if answers.Count < len(answers.Answers) {
		return nil, fmt.Errorf("answers: count is %d, but there are %d", answers.Count, len(answers.Answers))
	}
	for i, a := range answers.Answers {
		if a.Key == "" {
			return nil, fmt.Errorf("answers[%d].key is empty", i)
		}
	}
	return &answers, nil
}

// Check says whether a program may end its task with this error (MCP 2026-07-28, basic, Error Codes; JSON-RPC 2.0, section 5.1).
func (e *Error) Check() error {
	switch code := e.Code; {
	case code == 0:
		return errors.New("code must not be 0: take one of the tool's own, e.g. -32000")
	case code >= -32099 && code <= -32020, code == -32002, code == -32042:
		return fmt.Errorf("code %d is reserved by MCP: take one outside -32020 to -32099, not -32002 and not -32042", code)
	case code == -32700, code == -32600, code == -32601:
		return fmt.Errorf("code %d is reserved by JSON-RPC: of its codes a tool may use -32602 and -32603", code)
	}
	if e.Message == "" {
		return errors.New("message is missing")
	}
	if n := utf8.RuneCountInString(e.Message); n > MaxErrorMessage {
		return fmt.Errorf("message has %d characters; at most %d", n, MaxErrorMessage)
	}
	var data map[string]json.RawMessage
	if e.Data != nil && (json.Unmarshal(e.Data, &data) != nil || data == nil) {
		return errors.New("data must be a JSON object")
	}
	return nil
}
