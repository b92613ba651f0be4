package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// told is what a notification says of a task.
func told(id, status string, more ...string) string {
	return fakebridge.Task("", id, status, append(more, `"pollIntervalMs":20`)...)
}

// looked is the same as an answer to tasks/get.
func looked(id, status string, more ...string) fakebridge.Answer {
	return fakebridge.Result(fakebridge.Task("complete", id, status, append(more, `"pollIntervalMs":20`)...))
}

// watch watches tasks and returns what was seen.
func watch(t *testing.T, client *mcpclient.Client, ids ...string) ([]string, error) {
	t.Helper()
	seen := []string{}
	err := client.Watch(t.Context(), ids, func(task *mcpclient.Task) { seen = append(seen, task.ID+" "+string(task.Status)) })
	return seen, err
}

func TestWatchHearsOfChanges(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("subscriptions/listen", fakebridge.Listen(`["a","b"]`, told("a", "working"), told("b", "working"), told("other", "working"),
		told("b", "cancelled"), told("a", "input_required"), told("a", "completed", completed)))
	seen, err := watch(t, client, "a", "b", "a")
	if want := []string{"a working", "b working", "b cancelled", "a input_required", "a completed"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("saw %v, %v", seen, err)
	}
	if n := len(bridge.Requests("tasks/get")); n != 0 {
		t.Errorf("%d looks were taken", n)
	}
	if sent := bridge.Requests("subscriptions/listen"); len(sent) != 1 || string(sent[0].Params.Notifications) != `{"taskIds":["a","b"]}` {
		t.Errorf("listened with %+v", sent[0].Params)
	}
}

func TestWatchLooksWhereTheServerDoesNotTell(t *testing.T) {
	for name, listen := range map[string][]fakebridge.Answer{
		"it has no such streams": {fakebridge.Error(404, -32601, "Method not found")},
		"it has too many":        {fakebridge.Error(429, -32603, "too many")},
		"it grants nothing":      {fakebridge.Listen(`[]`)},
		"the stream breaks off":  {fakebridge.Hangup},
		"the stream ends": {fakebridge.Stream(func(id json.RawMessage) string {
			return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\"}}\n\n", id)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			bridge, client := newWaiter(t)
			bridge.On("subscriptions/listen", listen...)
			bridge.On("tasks/get", looked("a", "working"), looked("a", "working"), looked("a", "completed", completed))
			seen, err := watch(t, client, "a")
			if want := []string{"a working", "a working", "a completed"}; err != nil || !slices.Equal(seen, want) {
				t.Errorf("saw %v, %v", seen, err)
			}
			if n := len(bridge.Requests("subscriptions/listen")); name == "it has no such streams" && n != 1 {
				t.Errorf("tried %d times", n)
			}
		})
	}
}

func TestWatchGoesBackToListening(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("subscriptions/listen", fakebridge.Hangup, fakebridge.Listen(`["a"]`, told("a", "working"), told("a", "completed", completed)))
	bridge.On("tasks/get", fakebridge.Plain(503, "no backend"))
	seen, err := watch(t, client, "a")
	if want := []string{"a working", "a completed"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("saw %v, %v", seen, err)
	}
}

func TestWatchSaysWhatItCannotWatch(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("subscriptions/listen", fakebridge.Listen(`["a"]`, told("a", "working")), fakebridge.Listen(`["a"]`, told("a", "failed", `"error":{"code":-32603,"message":"no"}`)))
	bridge.On("tasks/get", looked("a", "working"), fakebridge.Error(400, -32602, "Unknown task"))
	seen, err := watch(t, client, "a", "gone")
	if err == nil || !strings.Contains(err.Error(), "task gone: tasks/get: Unknown task") || seen[len(seen)-1] != "a failed" {
		t.Errorf("saw %v, %v", seen, err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	bridge, client := newWaiter(t)
	bridge.On("subscriptions/listen", fakebridge.Listen(`["a"]`, told("a", "working")))
	ctx, stop := context.WithCancel(t.Context())
	if err := client.Watch(ctx, []string{"a"}, func(*mcpclient.Task) { stop() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
