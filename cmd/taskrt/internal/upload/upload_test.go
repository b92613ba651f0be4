package upload

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/bridge"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/question"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
)

// start runs an Uploader until the test ends.
func start(t *testing.T, port Port) *Uploader {
	t.Helper()
	store, state, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	u := New(task.New(store, state, []string{question.Form}, ""), port, slog.New(slog.NewTextHandler(io.Discard, nil)))
	u.Patience = 300 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); u.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return u
}

func client(t *testing.T, port *fakeport.Port) *bridge.Client {
	t.Helper()
	c, err := bridge.New(port.URL(), fakeport.Namespace, fakeport.TaskID, port.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var finished = journal.Outcome{Outcome: report.OutcomeResult, Result: json.RawMessage(`{"content":[]}`)}

// A Pod without the right to speak is told so, but not at once: a cache or a token may be a little late.
func TestPodWithoutRight(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		port := fakeport.New(t)
		u := start(t, client(t, port))
		port.Refuse(func(report.Report) (int, string) { return status, "the token is of another Pod" })
		err := u.Task.Finish(t.Context(), finished, nil)
		if err == nil || !strings.Contains(err.Error(), "the bridge refuses this Pod's report: the token is of another Pod") || port.Tries() < 2 {
			t.Errorf("%d: %v after %d tries", status, err, port.Tries())
		}
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	for _, status := range []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		port := fakeport.New(t)
		u := start(t, client(t, port))
		left := 2
		port.Refuse(func(report.Report) (int, string) {
			if left--; left >= 0 {
				return status, "later"
			}
			return 0, ""
		})
		if err := u.Task.Finish(t.Context(), finished, nil); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// silent is a bridge that takes a request and says nothing.
type silent struct{}

func (silent) Put(ctx context.Context, _ []byte) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (silent) PutResult(ctx context.Context, _ *result.File) error {
	<-ctx.Done()
	return ctx.Err()
}

func (silent) Answers(ctx context.Context, _ int) (*report.Answers, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestFlushOfASilentBridgeEnds(t *testing.T) {
	u := start(t, silent{})
	u.Task.SetStateName("x")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if u.Flush(ctx) {
		t.Error("flushed")
	}
}

// What nobody waits for is held back for a while, but not at the end.
func TestFlushHoldsNothingBack(t *testing.T) {
	port := fakeport.New(t)
	u := start(t, client(t, port))
	u.Every = time.Hour
	if err := u.Task.Finish(t.Context(), finished, nil); err != nil {
		t.Fatal(err)
	}
	u.Task.SetStateName("end")
	if !u.Flush(t.Context()) || port.Last().StateName != "end" {
		t.Errorf("last report %+v", port.Last())
	}
}

func TestAnswersThatDoNotWait(t *testing.T) {
	port := &hasty{}
	u := start(t, port)
	_, err := u.Task.Ask(t.Context(), "i", []question.Params{{Message: "m", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	fakeport.Await(t, "polls", func() bool { return len(port.polled()) >= 3 })
	times := port.polled()
	if gap := times[2].Sub(times[0]); gap < unknownPod {
		t.Errorf("three polls within %v", gap)
	}
}
