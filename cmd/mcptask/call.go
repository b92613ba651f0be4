package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// call is what the flags of the command say.
type call struct {
	arguments []string
	wait      bool
	noTasks   bool
	format    format
}

func (p *program) callCommand() *cobra.Command {
	c := &call{}
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGUMENTS_JSON]",
		Short: "Call a tool",
		Long: `Call a tool with arguments, given as one JSON object or with --arg.

A call that takes longer becomes a task, whose id is printed. With --wait the result is waited for and printed.
With --no-tasks the server is asked to keep the call open until there is a result, as clients without tasks do.`,
		Example: `  ` + p.name + ` call crawl '{"url":"http://example.com/","depth":2}' --wait
  ` + p.name + ` call crawl --arg url=http://example.com/ --arg depth=2`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || len(args) > 2:
				return usagef("give a TOOL and at most one JSON object: %s TOOL [ARGUMENTS_JSON]", cmd.CommandPath())
			case len(args) == 2 && len(c.arguments) > 0:
				return usagef("give the arguments as a JSON object or with --arg, not both")
			case c.wait && c.noTasks:
				return usagef("--no-tasks waits by itself: leave out --wait")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.call(cmd.Context(), c, args) },
	}
	cmd.Flags().StringArrayVar(&c.arguments, "arg", nil, "an argument as NAME=VALUE, of the type that the tool wants; may be repeated")
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait for the result")
	cmd.Flags().BoolVar(&c.noTasks, "no-tasks", false, "do not let the call become a task")
	c.format.addFlag(cmd)
	return cmd
}

func (p *program) call(ctx context.Context, c *call, args []string) error {
	var arguments json.RawMessage
	pairs, err := readPairs("--arg", c.arguments)
	if len(args) == 2 && err == nil {
		arguments, err = objectArgument(args[1])
	}
	if err != nil {
		return err
	}
	connection, err := p.connect(ctx, !c.noTasks)
	if err != nil {
		return err
	}
	defer connection.close()
	if len(pairs) > 0 {
		tool, err := findTool(ctx, connection.Client, args[0])
		if err != nil {
			return err
		}
		if arguments, err = typed(tool, pairs); err != nil {
			return err
		}
	}
	watch := &watch{out: p.errOut}
	answer, err := connection.CallTool(ctx, args[0], arguments, mcpclient.CallOptions{
		ProgressToken: 1, // unique: there is one call
		Progress:      watch.progress,
	})
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(p.errOut, "Interrupted before the call was answered; the server takes this as a cancellation.")
	}
	if err != nil {
		return callError(err)
	}
	switch {
	case answer.Result != nil:
		return p.writeResult(c.format, answer.Result)
	case c.wait:
		fmt.Fprintf(p.errOut, "The call has become task %s.\n", oneLine(answer.Task.ID))
		return p.wait(ctx, connection, answer.Task.ID, watch, c.format)
	case c.format.json:
		return writeJSON(p.out, answer.Task.Raw)
	}
	fmt.Fprintln(p.out, oneLine(answer.Task.ID))
	fmt.Fprint(p.errOut, "The call has become this task. "+p.advice(answer.Task.ID))
	return nil
}

// findTool finds a tool by its name, for its schema.
func findTool(ctx context.Context, client *mcpclient.Client, name string) (mcpclient.Tool, error) {
	tools, err := client.ListTools(ctx)
	if err != nil {
		return mcpclient.Tool{}, err
	}
	names := []string{}
	for _, tool := range tools {
		if tool.Name == name {
			return tool, nil
		}
		names = append(names, tool.Name)
	}
	if len(names) == 0 {
		return mcpclient.Tool{}, fmt.Errorf("there is no tool %q here that you may call, nor any other. %s", name, noTools)
	}
	return mcpclient.Tool{}, fmt.Errorf("there is no tool %q here that you may call and that is ready; there are: %s", name, strings.Join(names, ", "))
}
