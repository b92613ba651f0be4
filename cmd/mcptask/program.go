package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const long = `Call the tools of an mcptask endpoint, and look after the tasks that they become.

Without --server the bridge of the current kubeconfig's cluster is used, through a port-forward.

The bridge wants to know who calls. Give it a token with --service-account, with --token-file, or in the environment
variable MCPTASK_TOKEN. Tokens are made for one endpoint: --service-account takes care of that, and so does
kubectl create token NAME --audience PUBLIC-URL/mcp/NAMESPACE

Exit codes: 0 success; 1 the tool reported an error; 2 wrong usage; 3 the call failed or was cancelled;
4 the server refused or did not answer; 130 interrupted.`

// program is one run of the command.
type program struct {
	name        string
	out, errOut io.Writer
	getenv      func(string) string

	where where
	// audience is what tokens for the endpoint are made for, once it is known.
	audience string
	// flags are those that say where, as they were given, for commands that the user is advised to run.
	flags string
}

// run executes the command line and returns the exit code.
func (p *program) run(ctx context.Context, arguments []string) int {
	root := p.command()
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(p.errOut, "Error:", p.explain(err))
	}
	return exitCode(err)
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "mcptask",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: p.name},
		Short:         "Call MCP tools that are Kubernetes Jobs",
		Long:          long,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; %s --help lists them", args[0], p.name)
			}
			return cmd.Help()
		},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { p.flags = given(cmd.InheritedFlags()) },
	}
	root.SetOut(p.out)
	root.SetErr(p.errOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	p.where.addFlags(root.PersistentFlags())
	root.AddCommand(p.toolsCommand(), p.callCommand(), p.getCommand(), p.waitCommand(), p.watchCommand(), p.answerCommand(), p.cancelCommand())
	return root
}

// given are the flags that were set, as they would be typed.
func given(flags *pflag.FlagSet) string {
	var text strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		value := f.Value.String()
		if strings.ContainsAny(value, " \t\"'\\$&;|<>*?()#~") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		fmt.Fprintf(&text, " --%s %s", f.Name, value)
	})
	return text.String()
}

// oneArgument is the check of commands that take exactly one.
func (p *program) oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("give one %s: %s %s", name, cmd.CommandPath(), name)
		}
		return nil
	}
}
