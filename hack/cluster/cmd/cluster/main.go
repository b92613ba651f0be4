//go:build linux

// Command cluster runs a real Kubernetes on a bare Linux machine, built from Go
// modules alone.
package main

import (
	"os"

	"github.com/mcptask/mcptask/hack/cluster/internal/cli"
)

func main() { os.Exit(cli.Main()) }
