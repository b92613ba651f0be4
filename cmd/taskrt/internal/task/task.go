// Package task knows what the program told about its work, what of it the bridge has, and which answers have come.
package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/question"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// ErrEnded is what a program hears that speaks to a task which has ended.
var ErrEnded = errors.New("the task has ended")

// Store keeps the state; when Save returns, it survives a crash.
type Store interface{ Save(*journal.State) error }

// Task may be used by several goroutines at once.
type Task struct {
	asks  []string // the modes of question that are allowed
	store Store

	mu       sync.Mutex
	sequence int64
	namer    *question.Namer
	status   *status // as the program said last; never nil
	known    *status // as the bridge has it; nil before the first report
	asked    []*ask
	outcome  *outcome // as the bridge has it
	next     *outcome // on its way there
	resultID string
	lastSent report.Report

	ended   chan struct{}
	changed chan struct{} // closed and replaced at each change
}

// status is what is reported at most once in a second. It is replaced whole.
type status struct {
	progress  *report.Progress
	stateName string
}

// ask is what was asked at once; settled is closed when it is stored or refused.
type ask struct {
	journal.Ask
	answers []*answer
	settled chan struct{}
	err     error
}

// answer is the answer to one question; came is closed when response is there.
type answer struct {
	key      string
	params   json.RawMessage // of the question
	response json.RawMessage
	came     chan struct{}
}

// outcome is how the work ended; settled is closed when it is stored, refused or replaced.
type outcome struct {
	journal.Outcome
	settled chan struct{}
	err     error
	instead func(words string) journal.Outcome // if it is refused
}

// New returns a task that goes on where the state says. asks are the modes of question that are allowed, index is the completion index
// of an indexed Job's Pod.
func New(store Store, state *journal.State, asks []string, index string) *Task {
	t := &Task{
		asks: asks, store: store, sequence: state.Sequence, resultID: state.ResultFile,
		namer:  question.NewNamer(index, state.Questions()),
		status: &status{state.Progress, state.StateName},
		ended:  make(chan struct{}), changed: make(chan struct{}),
	}
	for _, a := range state.Asks {
		t.asked = append(t.asked, newAsk(*a))
	}
	t.outcome, t.next = newOutcome(state.Outcome), newOutcome(state.NextOutcome)
	if state.Sequence == 0 {
		t.known = t.status // nothing was ever said
	}
	return t
}

func newAsk(a journal.Ask) *ask {
	made := &ask{Ask: a, settled: make(chan struct{})}
	for _, q := range a.Questions {
		made.answers = append(made.answers, &answer{key: q.Key, params: q.Params, came: make(chan struct{})})
	}
	if a.Stored {
		close(made.settled)
	}
	return made
}

func newOutcome(o *journal.Outcome) *outcome {
	if o == nil {
		return nil
	}
	return &outcome{Outcome: *o, settled: make(chan struct{})}
}

// Ended is closed when the task has ended: nothing is sent any more.
func (t *Task) Ended() <-chan struct{} { return t.ended }

// End ends the task. Whoever waits hears that it has ended.
func (t *Task) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isEnded() {
		return
	}
	close(t.ended)
	t.touch()
}

func (t *Task) isEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// Changed is closed at the next change.
func (t *Task) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

func (t *Task) touch() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Task) save() error {
	state := &journal.State{
		Sequence: t.sequence, Progress: t.status.progress, StateName: t.status.stateName, ResultFile: t.resultID,
		Outcome: t.outcome.journal(), NextOutcome: t.next.journal(),
	}
	for _, a := range t.asked {
		state.Asks = append(state.Asks, &a.Ask)
	}
	return t.store.Save(state)
}

func (o *outcome) journal() *journal.Outcome {
	if o == nil {
		return nil
	}
	return &o.Outcome
}

// SetProgress says how far the work is; the newest wins.
func (t *Task) SetProgress(p report.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = &status{&p, t.status.stateName}
	t.touch()
}

// SetStateName says where the work is, in the tool's own word; the newest wins.
func (t *Task) SetStateName(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = &status{t.status.progress, name}
	t.touch()
}

// Snapshot is the task for a person who looks.
type Snapshot struct {
	Ended bool
	// Report is all that the program said.
	Report report.Report
	// Unstored is the number of things that the bridge does not have yet.
	Unstored int
	// Answered has the keys of the questions with an answer.
	Answered []string
}

// Snapshot shows the present state.
func (t *Task) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	pending := t.pending()
	s := Snapshot{Ended: t.isEnded(), Report: t.report(pending), Unstored: len(pending)}
	for _, a := range t.asked {
		for _, answer := range a.answers {
			if answer.response != nil {
				s.Answered = append(s.Answered, answer.key)
			}
		}
	}
	return s
}

// fits says whether a report with everything in it is within its bounds.
func (t *Task) fits() error {
	r := t.report(t.pending())
	r.Sequence = 1 << 62
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > report.MaxBytes {
		return fmt.Errorf("the report of this Pod, with its questions and its result, would have %d bytes; at most %d", len(body), report.MaxBytes)
	}
	return nil
}
