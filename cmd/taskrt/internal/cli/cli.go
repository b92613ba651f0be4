// Package cli is the program task, for the work of a task: it reports progress, asks questions and hands over a result.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
)

// Exit codes of task.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitDeclined = 3
	ExitCanceled = 4
	ExitTimeout  = 5
)

const usage = `task joins the work of a task to the task.

  task progress N [--total M] [MESSAGE]     how far the work is
  task state NAME                           where it is, in a word of the tool's own
  task ask --message TEXT --schema JSON     ask a person, and wait for the answer
  task ask --message TEXT --url URL         send a person to a page, and wait
  task answer KEY [--wait]                  the answer to a question asked earlier
  task result --json FILE|-                 hand over the result
  task result [--text TEXT] [--file PATH[:MIME]]...
  task fail --code N --message TEXT         end the task with an error
  task cancelled                            say that the work was stopped on request

"task VERB --help" has the options of a verb. Exit codes: 0 done, or accepted; 1 refused or failed; 2 wrong command line;
3 the answer is to decline; 4 the question was dismissed; 5 no answer in time.
`

// program is one run of task.
type program struct {
	client      *client
	maxResult   int64
	in          io.Reader
	out, errOut io.Writer
}

// exit ends the program with a code, and with words if there are any.
type exit struct {
	code  int
	words string
}

func (e *exit) Error() string { return e.words }

func usagef(format string, args ...any) error { return &exit{ExitUsage, fmt.Sprintf(format, args...)} }

type verb func(p *program, ctx context.Context, args []string) error

var verbs = map[string]verb{
	"progress": (*program).progress, "state": (*program).state, "ask": (*program).ask, "answer": (*program).answer,
	"result": (*program).result, "fail": (*program).fail, "cancelled": (*program).cancelled,
}

// Is says whether a word is a verb of task.
func Is(word string) bool { return verbs[word] != nil }

// Run runs task, and returns its exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, in io.Reader, out, errOut io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(out, usage)
		return ExitOK
	}
	run := verbs[args[0]]
	if run == nil {
		fmt.Fprintf(errOut, "task: there is no %q\n\n%s", args[0], usage)
		return ExitUsage
	}
	maxResult, err := result.Limit(getenv)
	if err != nil {
		fmt.Fprintf(errOut, "task: %v\n", err)
		return ExitFailed
	}
	p := &program{client: newClient(getenv("MCPTASK_SOCKET")), maxResult: maxResult, in: in, out: out, errOut: errOut}
	return p.end(args[0], run(p, ctx, args[1:]))
}

func (p *program) end(name string, err error) int {
	var e *exit
	switch {
	case err == nil || errors.Is(err, pflag.ErrHelp):
		return ExitOK
	case errors.As(err, &e):
		if e.words != "" {
			fmt.Fprintf(p.errOut, "task %s: %s\n", name, e.words)
		}
		return e.code
	}
	fmt.Fprintf(p.errOut, "task %s: %v\n", name, err)
	return ExitFailed
}

// parse reads the options of a verb and wants so many further arguments.
func (p *program) parse(flags *pflag.FlagSet, args []string, least, most int) error {
	flags.SetOutput(p.out)
	flags.SortFlags = false
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return usagef("%v", err)
	}
	if n := flags.NArg(); n < least || n > most {
		return usagef("has %d arguments, see task %s --help", n, flags.Name())
	}
	if p.client.socket == "" {
		return errors.New("MCPTASK_SOCKET is not set: task works in the containers of a task's Pod, when the McpTool says spec.runtime.enabled: true")
	}
	return nil
}

// flagSet has a usage line like "progress N [--total M] [MESSAGE]".
func (p *program) flagSet(name, line string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(p.out, "task %s\n", line)
		if options := flags.FlagUsages(); options != "" {
			fmt.Fprintf(p.out, "\n%s", options)
		}
	}
	return flags
}

// within bounds ctx; 0 is no bound.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
