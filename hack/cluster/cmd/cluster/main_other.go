//go:build !linux

package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "cluster: a cluster needs Linux, and this is %s; use a Linux machine or a virtual one\n", runtime.GOOS)
	os.Exit(1)
}
