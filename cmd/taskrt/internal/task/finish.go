package task

import (
	"context"
	"errors"
	"os"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
)

// ErrReplaced is what a program hears whose outcome was replaced by a later one before the bridge had it.
var ErrReplaced = errors.New("another outcome was handed over before this one was stored")

// Refusal is what a program did wrong, in words for its author.
type Refusal struct{ Reason error }

func (r *Refusal) Error() string { return r.Reason.Error() }
func (r *Refusal) Unwrap() error { return r.Reason }

// Finish says how the work ended, and returns when the bridge has it. The newest outcome wins. When the bridge refuses it, the one that
// instead makes of its words is sent, if there is an instead.
func (t *Task) Finish(ctx context.Context, o journal.Outcome, instead func(words string) journal.Outcome) error {
	t.mu.Lock()
	next := newOutcome(&o)
	next.instead = instead
	next, err := t.finish(next)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-next.settled:
		return next.err
	case <-t.ended:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// FinishWithFile says that the work ended with what is in the result file, and does not wait. The very same file, by its hash,
// is not taken twice, also not after a restart. When the bridge refuses the outcome, the one that instead makes of its words is sent.
func (t *Task) FinishWithFile(hash string, o journal.Outcome, instead func(words string) journal.Outcome) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resultID == hash {
		newOutcome(&o).drop()
		return nil
	}
	before := t.resultID
	t.resultID = hash
	next := newOutcome(&o)
	next.instead = instead
	if _, err := t.finish(next); err != nil {
		t.resultID = before
		return err
	}
	return nil
}

// drop removes the file of an outcome that is no longer wanted. One that stays is removed when the sidecar starts again.
func (o *outcome) drop() {
	if o != nil && o.File != nil {
		_ = os.Remove(o.File.Path)
	}
}

func (t *Task) finish(o *outcome) (*outcome, error) {
	if t.isEnded() {
		o.drop()
		return nil, ErrEnded
	}
	before := t.next
	t.next = o
	if err := t.fits(); err != nil {
		t.next = before
		o.drop()
		return nil, &Refusal{err}
	}
	if err := t.save(); err != nil {
		t.next = before
		o.drop()
		return nil, err
	}
	if before != nil {
		before.err = ErrReplaced
		before.drop()
		settle(before.settled)
	}
	t.touch()
	return o, nil
}
