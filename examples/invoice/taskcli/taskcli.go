// Package taskcli joins a program to the MCP task that it works for, through the command that mcptask puts into the
// Pod of a tool with runtime.enabled: /mcptask/bin/task.
package taskcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Path is where the command is in a Pod.
const Path = "/mcptask/bin/task"

// Task is the task of this Pod.
type Task struct{ command string }

// New makes a Task that is reached through the command at a path.
func New(command string) *Task { return &Task{command} }

// State gives the name of where the work is.
func (t *Task) State(ctx context.Context, name string) error {
	_, err := t.run(ctx, nil, "state", name)
	return err
}

// Result hands over the structured result.
func (t *Task) Result(ctx context.Context, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = t.run(ctx, text, "result", "--json", "-")
	return err
}

// Cancelled says that the work was given up.
func (t *Task) Cancelled(ctx context.Context) error {
	_, err := t.run(ctx, nil, "cancelled")
	return err
}

// Action is what a person did with a question (MCP, Elicitation, Response Actions).
type Action string

const (
	// Accept: the question was answered.
	Accept Action = "accept"
	// Decline: the person said no to the question itself.
	Decline Action = "decline"
	// Cancel: the person closed the question without a choice.
	Cancel Action = "cancel"
)

// Exit codes of "task ask" that carry an answer.
const (
	exitDecline = 3
	exitCancel  = 4
)

// Ask asks a person and waits for the answer, however long it takes. What was filled in is decoded into content, when
// the action is Accept. A Pod that takes the work over and asks the same is given the answer that there is already.
func (t *Task) Ask(ctx context.Context, message string, schema, content any) (Action, error) {
	form, err := json.Marshal(schema)
	if err != nil {
		return "", err
	}
	out, err := t.run(ctx, nil, "ask", "--message", message, "--schema", string(form))
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		switch ended.ExitCode() {
		case exitDecline:
			return Decline, nil
		case exitCancel:
			return Cancel, nil
		}
	}
	if err != nil {
		return "", err
	}
	var answer struct {
		Action  Action          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	err = json.Unmarshal(out, &answer)
	if err == nil && answer.Action != Accept {
		err = fmt.Errorf("the action %q is unknown", answer.Action)
	}
	if err == nil {
		err = json.Unmarshal(answer.Content, content)
	}
	if err != nil {
		return "", fmt.Errorf("task ask: reading the answer: %w", err)
	}
	return Accept, nil
}

// run runs the command. Its error has what the command said.
func (t *Task) run(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, t.command, args...)
	if input != nil {
		command.Stdin = bytes.NewReader(input)
	}
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("task %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
