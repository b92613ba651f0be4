package task

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
)

// Change is one thing that the bridge does not have yet. Exactly one of its fields is set.
type Change struct {
	status  *status
	ask     *ask
	outcome *outcome
}

// File has the result that comes with the change, where that is too large for a report.
func (c Change) File() *result.File {
	if c.outcome == nil {
		return nil
	}
	return c.outcome.File
}

// FileOf has the large result among changes, nil where there is none.
func FileOf(changes []Change) *result.File {
	for _, c := range changes {
		if file := c.File(); file != nil {
			return file
		}
	}
	return nil
}

// Urgent says that somebody waits for this change to be stored.
func (c Change) Urgent() bool { return c.status == nil }

// Pending are the changes that the bridge does not have yet, none once the task has ended.
func (t *Task) Pending() []Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending()
}

func (t *Task) pending() []Change {
	if t.isEnded() {
		return nil
	}
	var changes []Change
	if t.status != t.known {
		changes = append(changes, Change{status: t.status})
	}
	for _, a := range t.asked {
		if !a.Stored {
			changes = append(changes, Change{ask: a})
		}
	}
	if t.next != nil {
		changes = append(changes, Change{outcome: t.next})
	}
	return changes
}

// Report is what the bridge has, with some changes. Its sequence is larger than that of every report before it that was different,
// and has been written down.
func (t *Task) Report(changes []Change) (report.Report, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.report(changes)
	r.Sequence = t.lastSent.Sequence
	if t.lastSent.Sequence > 0 && reflect.DeepEqual(r, t.lastSent) {
		return r, nil
	}
	t.sequence++
	if err := t.save(); err != nil {
		t.sequence--
		return report.Report{}, err
	}
	r.Sequence = t.sequence
	t.lastSent = r
	return r, nil
}

func (t *Task) report(changes []Change) report.Report {
	var r report.Report
	said, ended := t.known, t.outcome
	for _, c := range changes {
		switch {
		case c.status != nil:
			said = c.status
		case c.outcome != nil:
			ended = c.outcome
		}
	}
	if said != nil {
		r.Progress, r.StateName = said.progress, said.stateName
	}
	if ended != nil {
		r.Outcome, r.Result, r.ResultSize, r.Error = ended.Outcome.Outcome, ended.Result, ended.ResultSize, ended.Error
		if f := ended.File; f != nil {
			r.ResultRef = &report.ResultRef{SHA256: f.SHA256, Bytes: f.Bytes, IsError: f.IsError}
		}
	}
	for _, a := range t.asked {
		if a.Stored || slices.Contains(changes, Change{ask: a}) {
			r.InputRequests = append(r.InputRequests, a.Questions...)
		}
	}
	return r
}

// Stored says that the bridge has a report with these changes.
func (t *Task) Stored(changes []Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	urgent := false
	for _, c := range changes {
		switch {
		case c.status != nil:
			t.known = c.status
		case c.ask != nil:
			urgent = urgent || !c.ask.Stored
			c.ask.Stored = true
			settle(c.ask.settled)
		case c.outcome != nil:
			t.outcome.drop()
			t.outcome = c.outcome
			if t.next == c.outcome {
				t.next = nil
			}
			urgent = true
			settle(c.outcome.settled)
		}
	}
	t.touch()
	if !urgent {
		return nil
	}
	return t.save()
}

// Refused says that the bridge will not have this change, and why. It is as if it had not been said.
func (t *Task) Refused(c Change, reason error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.status != nil:
		if t.known == nil {
			t.known = &status{}
		}
		if t.status == c.status {
			t.status = t.known
		}
	case c.ask != nil:
		c.ask.err = &Refusal{t.ofProgram(c.ask, reason)}
		t.withdraw(c.ask)
		settle(c.ask.settled)
	case c.outcome != nil:
		c.outcome.err = &Refusal{reason}
		if t.next == c.outcome {
			t.next = nil
			if c.outcome.instead != nil {
				instead := c.outcome.instead(reason.Error())
				t.next = newOutcome(&instead)
			}
			c.outcome.drop()
		}
		settle(c.outcome.settled)
	}
	t.touch()
	return t.save()
}

var placeInReport = regexp.MustCompile(`^inputRequests(?:\[(\d+)\](?:\.params)?)?`)

// ofProgram says what is wrong with a question by its place among those that the program asked at once: the bridge counts all of
// the Pod's.
func (t *Task) ofProgram(refused *ask, reason error) error {
	found := placeInReport.FindStringSubmatch(reason.Error())
	if found == nil {
		return reason
	}
	place := "questions"
	if i, err := strconv.Atoi(found[1]); err == nil {
		for _, a := range t.asked {
			if a == refused {
				break
			}
			if a.Stored {
				i -= len(a.Questions)
			}
		}
		place = fmt.Sprintf("questions[%d]", i)
	}
	return errors.New(place + strings.TrimPrefix(reason.Error(), found[0]))
}

// Behind says that the bridge knows a report of this Pod with that sequence: the next one must have a larger one.
// So it is when the journal was lost.
func (t *Task) Behind(sequence int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequence = max(t.sequence, sequence)
	t.lastSent = report.Report{}
}

func settle(settled chan struct{}) {
	select {
	case <-settled:
	default:
		close(settled)
	}
}
