// Package upload brings to the bridge what the program says, and to the program what is answered.
package upload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/bridge"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
)

// Port is the bridge's runtime port.
type Port interface {
	Put(ctx context.Context, body []byte) (sequence int64, err error)
	PutResult(ctx context.Context, result *result.File) error
	Answers(ctx context.Context, after int) (*report.Answers, error)
}

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// unknownPod is how soon a report is sent again when the task does not know the Pod yet.
	unknownPod = 250 * time.Millisecond
	// together is how long a report that nobody waits for is held back: a program often says two things one after the other.
	together = 50 * time.Millisecond
	// hurriedRetry bounds the time between two tries when the Pod is about to end.
	hurriedRetry = 200 * time.Millisecond
)

// Uploader serves one task.
type Uploader struct {
	Task *task.Task
	Port Port
	Log  *slog.Logger
	// Every is the time between two reports that nobody waits for.
	Every time.Duration
	// Patience is how long the bridge may say that the Pod has no right to speak before its program is told.
	// A token, or a replica's cache, may be a little late.
	Patience time.Duration
	// Idle is called when the bridge has everything.
	Idle func()

	hurry     chan struct{}
	hurryOnce sync.Once
	refused   time.Time // since when the bridge says so
	result    string    // the hash of the large result that the bridge has
	complaint string
}

// New returns an Uploader with the times that suit a cluster.
func New(t *task.Task, port Port, log *slog.Logger) *Uploader {
	return &Uploader{Task: t, Port: port, Log: log, Every: time.Second, Patience: 15 * time.Second, Idle: func() {}, hurry: make(chan struct{})}
}

// Run works until ctx is done or the task has ended.
func (u *Uploader) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-u.Task.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	var loops sync.WaitGroup
	loops.Go(func() { u.sendReports(ctx) })
	loops.Go(func() { u.fetchAnswers(ctx) })
	loops.Wait()
}

// Flush waits until the bridge has everything, and reports whether it has. From now on nothing is held back.
func (u *Uploader) Flush(ctx context.Context) bool {
	u.hurryOnce.Do(func() { close(u.hurry) })
	for {
		changed := u.Task.Changed()
		if len(u.Task.Pending()) == 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return len(u.Task.Pending()) == 0
		}
	}
}

func (u *Uploader) sendReports(ctx context.Context) {
	var sent, since time.Time
	retry := firstRetry
	for ctx.Err() == nil {
		changed := u.Task.Changed()
		pending := u.Task.Pending()
		if len(pending) == 0 {
			since = time.Time{}
			u.Idle()
			wait(ctx, changed)
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if early := max(u.Every-time.Since(sent), together-time.Since(since)); early > 0 && !urgent(pending) && !u.hurried() {
			u.pause(ctx, early, changed)
			continue
		}
		sent, since = time.Now(), time.Time{}
		err := u.send(ctx, pending)
		if err == nil {
			u.complaint = ""
			retry = firstRetry
			continue
		}
		if ctx.Err() != nil {
			return
		}
		u.complain(err)
		delay := retry/2 + rand.N(retry/2) //nolint:gosec // spreads tries; nobody gains from a guess
		retry = min(2*retry, lastRetry)
		if bridge.Status(err) == http.StatusConflict {
			delay = unknownPod
		}
		if u.hurried() {
			delay = min(delay, hurriedRetry)
		}
		u.pause(ctx, delay, nil)
	}
}

func urgent(changes []task.Change) bool {
	for _, c := range changes {
		if c.Urgent() {
			return true
		}
	}
	return false
}

var errBehind = errors.New("the bridge has a newer report of this Pod")

// send sends a report with these changes. An error means: try again.
func (u *Uploader) send(ctx context.Context, changes []task.Change) error {
	r, err := u.Task.Report(changes)
	if err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	// A large result is stored before the report that names it.
	var sequence int64
	if err = u.sendResult(ctx, changes); err == nil {
		sequence, err = u.Port.Put(ctx, body)
	}
	switch status := bridge.Status(err); {
	case err == nil && sequence > r.Sequence:
		u.Task.Behind(sequence)
		return errBehind
	case err == nil:
		u.refused = time.Time{}
		return u.Task.Stored(changes)
	case status == http.StatusGone:
		u.Task.End()
		return nil
	case status == http.StatusUnprocessableEntity, status == http.StatusRequestEntityTooLarge:
		return u.refuse(ctx, changes, err)
	case temporary(status):
		u.refused = time.Time{}
		return err
	}
	if u.refused.IsZero() {
		u.refused = time.Now()
	}
	if time.Since(u.refused) < u.Patience {
		return err
	}
	for _, c := range changes {
		if err := u.Task.Refused(c, fmt.Errorf("the bridge refuses this Pod's report: %w", err)); err != nil {
			return err
		}
	}
	return nil
}

// sendResult stores the large result that comes with the changes, if there is one and the bridge does not have it yet.
func (u *Uploader) sendResult(ctx context.Context, changes []task.Change) error {
	file := task.FileOf(changes)
	if file == nil || file.SHA256 == u.result {
		return nil
	}
	if err := u.Port.PutResult(ctx, file); err != nil {
		return err
	}
	u.result = file.SHA256
	return nil
}

// temporary says of a failed request that the same one may succeed later, whatever the Pod is: 0 is no answer at all.
func temporary(status int) bool {
	return status < 400 || status >= 500 || status == http.StatusConflict ||
		status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// refuse finds out which of the changes the bridge does not want, and tells whoever made it.
func (u *Uploader) refuse(ctx context.Context, changes []task.Change, reason error) error {
	if len(changes) == 1 {
		u.Log.Warn("the bridge refuses what the program said", "reason", reason.Error())
		return u.Task.Refused(changes[0], reason)
	}
	for _, c := range changes {
		if err := u.send(ctx, []task.Change{c}); err != nil {
			return err
		}
	}
	return nil
}

// complain logs each kind of trouble once, not at every try.
func (u *Uploader) complain(err error) {
	if text := err.Error(); text != u.complaint {
		u.complaint = text
		u.Log.Info("a report could not be stored; trying again", "reason", text)
	}
}

func (u *Uploader) hurried() bool {
	select {
	case <-u.hurry:
		return true
	default:
		return false
	}
}

// pause waits for a time, or less when there is a change or a hurry.
func (u *Uploader) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	hurry := u.hurry
	if u.hurried() {
		hurry = nil
	}
	select {
	case <-timer.C:
	case <-changed:
	case <-hurry:
	case <-ctx.Done():
	}
}

func wait(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-changed:
	case <-ctx.Done():
	}
}
