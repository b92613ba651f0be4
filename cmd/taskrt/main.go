// Command taskrt joins the Pod of a task to the task. "taskrt serve" is the sidecar; with one of the verbs of task it is the program's
// own CLI, to which the sidecar copies it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/cli"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/serve"
)

func main() { os.Exit(run(os.Args)) }

func run(args []string) int {
	verb := ""
	if len(args) > 1 {
		verb = args[1]
	}
	switch {
	case filepath.Base(args[0]) == "task", cli.Is(verb):
		return cli.Run(context.Background(), args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	case verb == "serve":
		return exitCode(sidecar(args[2:]))
	case verb == "ready":
		return exitCode(serve.Ready(context.Background(), os.Getenv("MCPTASK_SOCKET")))
	}
	fmt.Fprintln(os.Stderr, "usage: taskrt serve [--token-file FILE] | taskrt ready | taskrt VERB (see task --help)")
	return cli.ExitUsage
}

// sidecar is small: the limits are for a heap of a few hundred kilobytes, in a container with 32 MiB.
func sidecar(args []string) error {
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(24 << 20)
	syscall.Umask(0o022) // every user id of the Pod must find the socket and the program
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	tokenFile := flags.String("token-file", "/var/run/mcptask/token", "the Pod's token for the bridge")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := serve.FromEnv(os.Getenv, *tokenFile)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return serve.Run(ctx, config, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "taskrt:", err)
		return cli.ExitFailed
	}
	return cli.ExitOK
}
