package socket

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
)

// Task is the answer to GET /v1/task.
type Task struct {
	TaskID    string   `json:"taskId"`
	Namespace string   `json:"namespace"`
	Asks      []string `json:"asks"`
	// Ended says that the task has ended: nothing that is said reaches it any more.
	Ended bool `json:"ended"`
	// Unstored is the number of things said that the task does not have yet.
	Unstored  int              `json:"unstored"`
	Progress  *report.Progress `json:"progress,omitempty"`
	StateName string           `json:"stateName,omitempty"`
	Questions []Question       `json:"questions"`
	Outcome   string           `json:"outcome,omitempty"`
}

// Question is a question that was asked.
type Question struct {
	Key      string `json:"key"`
	Answered bool   `json:"answered"`
}

// Answer is the answer to GET /v1/questions/{key}.
type Answer struct {
	Key      string          `json:"key"`
	Answered bool            `json:"answered"`
	Action   string          `json:"action,omitempty"`
	Content  json.RawMessage `json:"content,omitempty"`
}

// Keys is the answer to POST /v1/questions.
type Keys struct {
	Keys []string `json:"keys"`
}

func (s *Server) task(*http.Request, []byte) (any, error) {
	now := s.Task.Snapshot()
	shown := Task{
		TaskID: s.TaskID, Namespace: s.Namespace, Asks: append([]string{}, s.Asks...), Ended: now.Ended, Unstored: now.Unstored,
		Progress: now.Report.Progress, StateName: now.Report.StateName, Questions: []Question{}, Outcome: now.Report.Outcome,
	}
	for _, q := range now.Report.InputRequests {
		shown.Questions = append(shown.Questions, Question{q.Key, slices.Contains(now.Answered, q.Key)})
	}
	return shown, nil
}

func (s *Server) progress(_ *http.Request, body []byte) (any, error) {
	p, err := decodeProgress(body)
	if err != nil {
		return nil, &task.Refusal{Reason: err}
	}
	s.Task.SetProgress(p)
	return nil, nil
}

func (s *Server) state(_ *http.Request, body []byte) (any, error) {
	name, err := decodeState(body)
	if err != nil {
		return nil, &task.Refusal{Reason: err}
	}
	s.Task.SetStateName(name)
	return nil, nil
}

func (s *Server) questions(r *http.Request, body []byte) (any, error) {
	b, err := decodeQuestions(body)
	if err != nil {
		return nil, &task.Refusal{Reason: err}
	}
	if b.ID == "" {
		b.ID = newID()
	}
	keys, err := s.Task.Ask(r.Context(), b.ID, b.Questions)
	if err != nil {
		return nil, err
	}
	return Keys{keys}, nil
}

func (s *Server) question(r *http.Request, _ []byte) (any, error) {
	wait, err := waitTime(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	key := r.PathValue("key")
	answer, err := s.Task.Answer(ctx, key)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return Answer{Key: key}, nil
	}
	return Answer{Key: key, Answered: true, Action: answer.Action, Content: answer.Content}, nil
}

func (s *Server) result(r *http.Request, taken result.Taken) (any, error) {
	size, err := resultSize(r)
	if err != nil {
		return nil, err
	}
	o := journal.Outcome{Outcome: report.OutcomeResult, Result: taken.Result, File: taken.File, ResultSize: max(size, taken.Size)}
	var instead func(string) journal.Outcome
	if o.File != nil {
		instead = o.Lost
	}
	return nil, s.Task.Finish(r.Context(), o, instead)
}

func (s *Server) fail(r *http.Request, body []byte) (any, error) {
	failure, err := decodeFail(body)
	if err != nil {
		return nil, &task.Refusal{Reason: err}
	}
	return nil, s.Task.Finish(r.Context(), journal.Outcome{Outcome: report.OutcomeFailed, Error: failure}, nil)
}

func (s *Server) cancelled(r *http.Request, _ []byte) (any, error) {
	return nil, s.Task.Finish(r.Context(), journal.Outcome{Outcome: report.OutcomeCancelled}, nil)
}
