package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/question"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// ErrOtherAsk is what a program hears that comes with the id of an earlier ask, but with other questions.
var ErrOtherAsk = errors.New("id was used before, for other questions")

// ErrNoSuchQuestion is what a program hears that wants the answer to a question which this Pod has not asked.
var ErrNoSuchQuestion = errors.New("this Pod has asked no question with that key")

// Ask asks questions at once, and returns their keys when the bridge has them. Who comes again with the same id gets the same keys.
func (t *Task) Ask(ctx context.Context, id string, params []question.Params) ([]string, error) {
	a, err := t.ask(id, params)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.settled:
	case <-t.ended:
		return nil, ErrEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	keys := []string{}
	for _, q := range a.Questions {
		keys = append(keys, q.Key)
	}
	return keys, nil
}

func (t *Task) ask(id string, params []question.Params) (*ask, error) {
	for i := range params {
		if err := params[i].Check(t.asks); err != nil {
			return nil, &Refusal{fmt.Errorf("questions[%d]: %w", i, err)}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isEnded() {
		return nil, ErrEnded
	}
	if i := slices.IndexFunc(t.asked, func(a *ask) bool { return a.ID == id }); i >= 0 {
		return t.asked[i], same(t.asked[i], params)
	}
	if err := t.roomFor(len(params)); err != nil {
		return nil, &Refusal{err}
	}
	made := journal.Ask{ID: id}
	for _, p := range params {
		q, err := t.namer.Ask(p)
		if err != nil {
			return nil, err
		}
		made.Questions = append(made.Questions, q)
	}
	a := newAsk(made)
	t.asked = append(t.asked, a)
	if err := errors.Join(t.questionsFit(), t.fits()); err != nil {
		t.withdraw(a)
		return nil, &Refusal{err}
	}
	// A question leaves only after it was written down: else a restarted sidecar would ask it again, under another key.
	if err := t.save(); err != nil {
		t.withdraw(a)
		return nil, err
	}
	t.touch()
	return a, nil
}

// withdraw forgets questions that were never asked: their keys are free again.
func (t *Task) withdraw(a *ask) {
	t.asked = slices.DeleteFunc(t.asked, func(other *ask) bool { return other == a })
	t.namer.Reset(t.questions())
}

func (t *Task) questions() []report.InputRequest {
	var all []report.InputRequest
	for _, a := range t.asked {
		all = append(all, a.Questions...)
	}
	return all
}

// same says whether an ask has just these questions.
func same(a *ask, params []question.Params) error {
	if len(a.Questions) != len(params) {
		return ErrOtherAsk
	}
	for i, q := range a.Questions {
		var asked question.Params
		if err := json.Unmarshal(q.Params, &asked); err != nil {
			return err
		}
		asked.ElicitationID = ""
		if asked.Mode != params[i].Mode || asked.Message != params[i].Message || asked.URL != params[i].URL ||
			string(asked.RequestedSchema) != string(params[i].RequestedSchema) {
			return ErrOtherAsk
		}
	}
	return nil
}

// questionsFit says whether the questions together are within their bound.
func (t *Task) questionsFit() error {
	size := 0
	for _, q := range t.questions() {
		size += len(q.Params)
	}
	if size > report.MaxAllParams {
		return fmt.Errorf("the questions of this Pod would have %d bytes together; at most %d", size, report.MaxAllParams)
	}
	return nil
}

func (t *Task) roomFor(n int) error {
	all, open := 0, 0
	for _, a := range t.asked {
		all += len(a.answers)
		for _, answer := range a.answers {
			if answer.response == nil {
				open++
			}
		}
	}
	if open+n > report.MaxOpenQuestions {
		return fmt.Errorf("%d questions are asked at once, and %d are open; at most %d may be open", n, open, report.MaxOpenQuestions)
	}
	if all+n > report.MaxQuestions {
		return fmt.Errorf("%d questions are asked at once, and this Pod has asked %d; at most %d are possible in all", n, all, report.MaxQuestions)
	}
	return nil
}

// Answer waits for the answer to a question until ctx is done. Without an answer by then it returns nil. An answer that does not fit
// its question is a Refusal.
func (t *Task) Answer(ctx context.Context, key string) (*question.Answer, error) {
	answer := t.find(key)
	if answer == nil {
		return nil, ErrNoSuchQuestion
	}
	select {
	case <-answer.came:
		return answer.read()
	default:
	}
	select {
	case <-answer.came:
		return answer.read()
	case <-t.ended:
		return nil, ErrEnded
	case <-ctx.Done():
		return nil, nil
	}
}

func (a *answer) read() (*question.Answer, error) {
	read, err := question.ReadAnswer(a.params, a.response)
	if err != nil {
		return nil, &Refusal{fmt.Errorf("the answer to %s does not fit the question: %w", a.key, err)}
	}
	return read, nil
}

func (t *Task) find(key string) *answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.asked {
		for _, answer := range a.answers {
			if answer.key == key {
				return answer
			}
		}
	}
	return nil
}

// Waiting are the keys of the questions that the bridge has and nobody has answered.
func (t *Task) Waiting() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for _, a := range t.asked {
		for _, answer := range a.answers {
			if a.Stored && answer.response == nil {
				keys = append(keys, answer.key)
			}
		}
	}
	return keys
}

// Answered takes what was answered. The first answer to a question stands; those to other Pods' questions are not ours.
func (t *Task) Answered(answers []report.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	responses := map[string]json.RawMessage{}
	for _, a := range answers {
		responses[a.Key] = a.Response
	}
	news := false
	for _, a := range t.asked {
		for _, answer := range a.answers {
			if response := responses[answer.key]; answer.response == nil && response != nil {
				answer.response = append(json.RawMessage(nil), response...)
				close(answer.came)
				news = true
			}
		}
	}
	if news {
		t.touch()
	}
}
