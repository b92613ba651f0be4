package taskcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The test binary is also the command: it writes what it was given to a file, and does as the variable says, which is
// an exit code and what to print.
const behaviour, given = "TASKCLI_TEST_BEHAVIOUR", "TASKCLI_TEST_GIVEN"

func TestMain(m *testing.M) {
	if os.Getenv(behaviour) == "" {
		os.Exit(m.Run())
	}
	os.Exit(behave())
}

func behave() int {
	code, text, _ := strings.Cut(os.Getenv(behaviour), " ")
	exit, err := strconv.Atoi(code)
	if err != nil {
		return 99
	}
	args := os.Args[1:]
	if args[0] == "result" {
		input, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 99
		}
		args = append(args, string(input))
	}
	lines, err := json.Marshal(args)
	if err != nil || os.WriteFile(os.Getenv(given), lines, 0o600) != nil {
		return 99
	}
	if exit == 0 {
		fmt.Print(text)
	} else {
		fmt.Fprintln(os.Stderr, text)
	}
	return exit
}

// command makes the test binary behave in a way, and gives what the command was given.
func command(t *testing.T, does string) (*Task, func() []string) {
	t.Helper()
	file := t.TempDir() + "/given"
	t.Setenv(behaviour, does)
	t.Setenv(given, file)
	return New(os.Args[0]), func() (args []string) {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &args)
		}
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
}

func TestCommandLines(t *testing.T) {
	for want, do := range map[string]func(context.Context, *Task) error{
		"state paying":            func(ctx context.Context, task *Task) error { return task.State(ctx, "paying") },
		`result --json - {"n":1}`: func(ctx context.Context, task *Task) error { return task.Result(ctx, map[string]int{"n": 1}) },
		"cancelled":               func(ctx context.Context, task *Task) error { return task.Cancelled(ctx) },
	} {
		task, given := command(t, "0 ")
		if err := do(t.Context(), task); err != nil || strings.Join(given(), " ") != want {
			t.Errorf("%q, %v; want %q", given(), err, want)
		}
	}
}

func TestAsk(t *testing.T) {
	schema := map[string]any{"type": "object"}
	for _, c := range []struct {
		does    string
		action  Action
		content string
		fault   string
	}{
		{`0 {"action":"accept","content":{"word":"yes"}}`, Accept, "yes", ""},
		{`0 {"action":"accept","content":{"word":"yes"}}` + "\n", Accept, "yes", ""},
		{"3 declined", Decline, "", ""},
		{"4 cancelled", Cancel, "", ""},
		{"1 the bridge said no", "", "", "the bridge said no"},
		{`0 {"action":"accept"}`, "", "", "reading the answer"},
		{`0 {"action":"shrug","content":{}}`, "", "", "shrug"},
		{`0 yes`, "", "", "reading the answer"},
	} {
		task, given := command(t, c.does)
		var content struct{ Word string }
		action, err := task.Ask(t.Context(), "Well?", schema, &content)
		if action != c.action || content.Word != c.content || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q %q %v", c.does, action, content.Word, err)
		}
		if want := []string{"ask", "--message", "Well?", "--schema", `{"type":"object"}`}; !slices.Equal(given(), want) {
			t.Errorf("%q, want %q", given(), want)
		}
	}
}

func TestStopped(t *testing.T) {
	task, _ := command(t, "0 ")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := task.State(ctx, "paying"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
