package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

func (p *program) getCommand() *cobra.Command {
	var format format
	cmd := &cobra.Command{
		Use:   "get TASK",
		Short: "Show a task, and its result when it has ended",
		Args:  p.oneArgument("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, err := p.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer connection.close()
			task, err := connection.GetTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if format.json {
				return writeJSON(p.out, task.Raw)
			}
			return writeTask(p.out, task)
		},
	}
	format.addFlag(cmd)
	return cmd
}

func (p *program) waitCommand() *cobra.Command {
	var format format
	cmd := &cobra.Command{
		Use:   "wait TASK",
		Short: "Wait for the end of a task and print its result",
		Args:  p.oneArgument("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, err := p.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer connection.close()
			return p.wait(cmd.Context(), connection, args[0], &watch{out: p.errOut}, format)
		},
	}
	format.addFlag(cmd)
	return cmd
}

func (p *program) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel TASK",
		Short: "Ask for the end of a task",
		Args:  p.oneArgument("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, err := p.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer connection.close()
			task, err := connection.GetTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if task.Status.Terminal() {
				fmt.Fprintf(p.errOut, "The task had ended already, as %s: nothing was changed.\n", task.Status)
				return nil
			}
			if err := connection.CancelTask(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(p.errOut, "The task was asked to end. See how it ends: %s wait %s%s\n", p.name, args[0], p.flags)
			return nil
		},
	}
}

// wait waits for the end of a task and prints how it ended. When the wait ends before the task does, it says how to go on.
func (p *program) wait(ctx context.Context, connection *connection, id string, watch *watch, format format) error {
	task, err := connection.Wait(ctx, id, watch.task)
	if err != nil {
		var rpc *mcpclient.RPCError
		if unknown := errors.As(err, &rpc) && rpc.Code == mcpclient.CodeInvalidParams; !unknown {
			fmt.Fprint(p.errOut, "The task goes on. "+p.advice(id))
		}
		return err
	}
	if task.Status == mcpclient.Completed {
		return p.writeResult(format, task.Result)
	}
	if format.json {
		if err := writeJSON(p.out, task.Raw); err != nil {
			return err
		}
	}
	return endOf(task)
}

// advice says what can be done with a task that goes on.
func (p *program) advice(id string) string {
	id = oneLine(id)
	return fmt.Sprintf(`Wait for its result, look at it and at what it asks, or end it:
  %[1]s wait %[2]s%[3]s
  %[1]s get %[2]s%[3]s
  %[1]s cancel %[2]s%[3]s
`, p.name, id, p.flags)
}
