package socket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcptask/mcptask/api/report/plain"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/question"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// Progress is the body of POST /v1/progress.
type Progress struct {
	Current json.Number `json:"current"`
	Total   json.Number `json:"total,omitempty"`
	Message string      `json:"message,omitempty"`
}

// State is the body of POST /v1/state.
type State struct {
	Name string `json:"name"`
}

// Questions is the body of POST /v1/questions.
type Questions struct {
	ID        string            `json:"id,omitempty"`
	Questions []question.Params `json:"questions"`
}

func decodeProgress(body []byte) (report.Progress, error) {
	var b Progress
	if err := strict(body, &b); err != nil {
		return report.Progress{}, err
	}
	current, err := amount("current", b.Current)
	if err != nil {
		return report.Progress{}, err
	}
	if current == "" {
		return report.Progress{}, errors.New("current is missing: it is the amount of work done so far")
	}
	total, err := amount("total", b.Total)
	if err != nil {
		return report.Progress{}, err
	}
	return report.Progress{Current: current, Total: total, Message: shorten(plain.Line(b.Message))}, nil
}

var decimal = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,15})?$`)

// amount is a decimal number as it was written, or rewritten without exponent.
func amount(name string, n json.Number) (string, error) {
	if n == "" || decimal.MatchString(n.String()) {
		return n.String(), nil
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) || f < 0 || f >= 1e15 {
		return "", fmt.Errorf("%s must be a number from 0 to 10^15", name)
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}

// shorten cuts the message of a progress report: it must not fail for a long file name.
func shorten(message string) string {
	if utf8.RuneCountInString(message) <= report.MaxMessage {
		return message
	}
	return string([]rune(message)[:report.MaxMessage-1]) + "…"
}

func decodeState(body []byte) (string, error) {
	var b State
	if err := strict(body, &b); err != nil {
		return "", err
	}
	if b.Name == "" {
		return "", errors.New("name is missing")
	}
	if n := utf8.RuneCountInString(b.Name); n > report.MaxStateName {
		return "", fmt.Errorf("name has %d characters; at most %d", n, report.MaxStateName)
	}
	if r, found := plain.Control(b.Name); found {
		return "", fmt.Errorf("name must be plain text in one line, without the character %U", r)
	}
	return b.Name, nil
}

func decodeQuestions(body []byte) (*Questions, error) {
	var b Questions
	if err := strict(body, &b); err != nil {
		return nil, err
	}
	if len(b.Questions) == 0 {
		return nil, errors.New("questions is missing: it is an array with at least one question")
	}
	if len(b.ID) > 128 {
		return nil, errors.New("id has more than 128 bytes")
	}
	return &b, nil
}

func decodeFail(body []byte) (*report.Error, error) {
	var sent struct {
		Code    *int64          `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := strict(body, &sent); err != nil {
		return nil, err
	}
	switch {
	case sent.Code == nil:
		return nil, errors.New("code is missing")
	case *sent.Code < math.MinInt32 || *sent.Code > math.MaxInt32:
		return nil, fmt.Errorf("code must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	}
	failure := &report.Error{Code: int32(*sent.Code), Message: sent.Message}
	if !bytes.Equal(sent.Data, []byte("null")) {
		failure.Data = sent.Data
	}
	return failure, failure.Check()
}

// plainly says what cannot be read in JSON's words, not in Go's.
func plainly(err error) error {
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field == "":
		return errors.New("it must be a JSON object")
	case errors.As(err, &mistyped):
		return fmt.Errorf("%s must not be a JSON %s", mistyped.Field, mistyped.Value)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// strict refuses fields that nobody reads: most often they are misspelled.
func strict(body []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the body is empty: it must be a JSON object")
		}
		return fmt.Errorf("the body is wrong: %w", plainly(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body is wrong: there is more after the JSON object")
	}
	return nil
}
