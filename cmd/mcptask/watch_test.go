package main

import (
	"regexp"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
)

func TestWatchPrintsEachChange(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("subscriptions/listen", fakebridge.Listen(`["t1"]`,
		fakebridge.Task("", "t1", "working"), fakebridge.Task("", "t1", "working"),
		fakebridge.Task("", "t1", "working", `"statusMessage":"half\nway"`), fakebridge.Task("", "t1", "completed", completed)))
	got := run(t, bridge, "watch", "t1")
	timeless := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `).ReplaceAllString(got.out, "")
	if want := "working\nworking         half way\ncompleted\n"; got.code != 0 || timeless != want {
		t.Errorf("exit code %d, printed %q, said %q", got.code, got.out, got.errOut)
	}
}

func TestWatchSaysHowTasksEnded(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("subscriptions/listen", fakebridge.Listen(`["t1","t2","t3"]`,
		fakebridge.Task("", "t3", "cancelled"), fakebridge.Task("", "t1", "completed", completed),
		fakebridge.Task("", "t2", "completed", `"result":{"content":[],"isError":true}`)))
	got := run(t, bridge, "watch", "t1", "t2", "t3")
	timeless := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `).ReplaceAllString(got.out, "")
	if want := "t3  cancelled\nt1  completed\nt2  completed\n"; got.code != exitToolError || timeless != want || got.errOut != "Error: the tool of task t2 reported an error\n" {
		t.Errorf("exit code %d, printed %q, said %q", got.code, timeless, got.errOut)
	}
}

func TestWatchOfAnUnknownTask(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("subscriptions/listen", fakebridge.Listen(`[]`))
	bridge.On("tasks/get", fakebridge.Error(400, -32602, "Unknown task"))
	run(t, bridge, "watch", "t1").check(t, exitRefused, "", "task t1: tasks/get: Unknown task (error -32602)")
}
