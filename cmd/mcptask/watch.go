package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

func (p *program) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch TASK...",
		Short: "Print each change of tasks until all of them have ended",
		Long: `Print each change of tasks until all of them have ended.

The server tells of the changes as they come. Where it does not, the tasks are looked at again and again.
The exit code says how they ended: that of the first task, in the order given, that was no success.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("give one TASK or more: %s TASK...", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.watch(cmd.Context(), args) },
	}
}

func (p *program) watch(ctx context.Context, ids []string) error {
	connection, err := p.connect(ctx, true)
	if err != nil {
		return err
	}
	defer connection.close()
	lines, ends := map[string]*watch{}, map[string]error{}
	for _, id := range ids {
		lines[id] = &watch{out: p.out}
		if len(ids) > 1 {
			lines[id].of = oneLine(id)
		}
	}
	err = connection.Watch(ctx, ids, func(task *mcpclient.Task) {
		lines[task.ID].task(task)
		ends[task.ID] = endOf(task)
	})
	for _, id := range ids {
		if ends[id] != nil && !errors.Is(err, context.Canceled) {
			return errors.Join(ends[id], err)
		}
	}
	return err
}

// endOf is how a task ended that was no success.
func endOf(task *mcpclient.Task) error {
	switch task.Status {
	case mcpclient.Completed:
		if task.Result.IsError {
			return &ended{exitToolError, fmt.Sprintf("the tool of task %s reported an error", task.ID)}
		}
	case mcpclient.Failed:
		return &ended{exitFailed, fmt.Sprintf("task %s failed: %v", task.ID, task.Error)}
	case mcpclient.Cancelled:
		message := fmt.Sprintf("task %s was cancelled", task.ID)
		if task.StatusMessage != "" {
			message += ": " + task.StatusMessage
		}
		return &ended{exitFailed, message}
	}
	return nil
}
