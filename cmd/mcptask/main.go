// Command mcptask calls the tools of an mcptask endpoint, and looks after the tasks that they become. Installed under the
// name kubectl-mcptask it is "kubectl mcptask".
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// version is set when the program is built for a release.
var version = "dev"

func main() {
	// client-go's own log repeats what errors say.
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	p := &program{name: "mcptask", out: os.Stdout, errOut: os.Stderr, getenv: os.Getenv}
	switch called := os.Args[0]; { // what is advised can be pasted
	case strings.HasPrefix(filepath.Base(called), "kubectl-"):
		p.name = "kubectl mcptask"
	case called != "":
		p.name = called
	}
	os.Exit(p.run(ctx, os.Args[1:]))
}
