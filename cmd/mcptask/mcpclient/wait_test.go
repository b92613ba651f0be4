package mcpclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

const completed = `"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`

// newWaiter is a client that repeats unanswered requests three times, without delay worth mentioning.
func newWaiter(t *testing.T) (*fakebridge.Bridge, *mcpclient.Client) {
	t.Helper()
	bridge := fakebridge.New(t)
	return bridge, mcpclient.New(bridge.URL, mcpclient.Options{
		Tasks: true, Retry: wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 3},
	})
}

func TestWaitPollsAsTheServerWants(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("tasks/get",
		fakebridge.Result(fakebridge.Task("complete", "t1", "working", `"pollIntervalMs":20`)),
		fakebridge.Result(fakebridge.Task("complete", "t1", "input_required", `"pollIntervalMs":150`, `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Sure?"}}}`)),
		fakebridge.Result(fakebridge.Task("complete", "t1", "completed", completed)))
	var seen []mcpclient.Status
	var at []time.Time
	task, err := client.Wait(t.Context(), "t1", func(task *mcpclient.Task) {
		seen, at = append(seen, task.Status), append(at, time.Now())
		if task.Status == mcpclient.InputRequired && task.InputRequests["q"].Method != "elicitation/create" {
			t.Errorf("questions %+v", task.InputRequests)
		}
	})
	if err != nil || task.Result.Content[0].Text != "done" {
		t.Fatalf("got %+v, %v", task, err)
	}
	if len(seen) != 3 || seen[1] != mcpclient.InputRequired || seen[2] != mcpclient.Completed {
		t.Errorf("saw %v", seen)
	}
	if first, second := at[1].Sub(at[0]), at[2].Sub(at[1]); first < 20*time.Millisecond || second < 150*time.Millisecond {
		t.Errorf("asked after %v and %v, sooner than the server wanted", first, second)
	}
}

func TestWaitReturnsAFailedTask(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("tasks/get", fakebridge.Result(fakebridge.Task("complete", "t1", "failed", `"error":{"code":-32603,"message":"no such image"}`)))
	task, err := client.Wait(t.Context(), "t1", nil)
	if err != nil || task.Error.Code != mcpclient.CodeInternalError || task.Error.Message != "no such image" {
		t.Errorf("got %+v, %v", task, err)
	}
}

func TestWaitOutlastsARestart(t *testing.T) {
	bridge, client := newWaiter(t)
	busy := fakebridge.Error(429, -32603, "too many")
	working := fakebridge.Result(fakebridge.Task("complete", "t1", "working", `"pollIntervalMs":20`))
	// More faults than are repeated in a row, with answers between them.
	bridge.On("tasks/get", fakebridge.Hangup, fakebridge.Plain(503, "no backend"), busy, working,
		fakebridge.Plain(502, "bad gateway"), fakebridge.Plain(504, "timeout"), working,
		fakebridge.Result(fakebridge.Task("complete", "t1", "completed", completed)))
	if _, err := client.Wait(t.Context(), "t1", nil); err != nil {
		t.Error(err)
	}
}

func TestWaitGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		answer fakebridge.Answer
		asked  int
	}{
		"after the last retry":           {fakebridge.Plain(503, "no backend"), 4},
		"at once when it makes no sense": {fakebridge.Error(400, -32602, "Unknown task"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			bridge, client := newWaiter(t)
			bridge.On("tasks/get", c.answer)
			var rpc *mcpclient.RPCError
			if _, err := client.Wait(t.Context(), "t1", nil); !errors.As(err, &rpc) {
				t.Errorf("got %v", err)
			}
			if n := len(bridge.Requests("tasks/get")); n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("tasks/get", fakebridge.Result(fakebridge.Task("complete", "t1", "working", `"pollIntervalMs":3600000`)))
	ctx, stop := context.WithCancel(t.Context())
	_, err := client.Wait(ctx, "t1", func(*mcpclient.Task) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCancelTask(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("tasks/cancel", fakebridge.Result(`{"resultType":"complete"}`), fakebridge.Error(400, -32602, "Unknown task"))
	if err := client.CancelTask(t.Context(), "t1"); err != nil {
		t.Error(err)
	}
	var rpc *mcpclient.RPCError
	if err := client.CancelTask(t.Context(), "t2"); !errors.As(err, &rpc) || rpc.Code != mcpclient.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
	if sent := bridge.Requests("tasks/cancel"); sent[0].Params.TaskID != "t1" {
		t.Errorf("cancelled %q", sent[0].Params.TaskID)
	}
}
