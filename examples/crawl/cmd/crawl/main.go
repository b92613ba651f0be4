// Command crawl walks one web site and reports its pages, its answers and its broken links. It prints a text for
// people, and as the last line of its standard output one JSON object of at most 12 KiB.
//
// It exits with 0 when the crawl worked, broken links or not; with 1 when the start page could not be fetched; with 2
// when a flag is wrong; with 143 or 130 when SIGTERM or SIGINT stopped it, after printing what there was.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/crawler"
	"github.com/mcptask/mcptask/examples/crawl/report"
)

const (
	exitFailed = 1
	exitUsage  = 2
	// exitSignal is what a shell adds the number of a signal to.
	exitSignal = 128

	progressEvery = 5 * time.Second
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "crawl: %v\n", err)
		return exitUsage
	}
	cfg.ReportEvery = progressEvery
	cfg.Report = func(p crawler.Progress) {
		fmt.Fprintf(stderr, "crawl: %d fetched, %d known to be waiting, at link distance %d\n", p.Fetched, p.Waiting, p.Depth)
	}

	ctx, stopped := untilSignal()
	result, err := crawler.Crawl(ctx, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "crawl: %v\n", err)
		return exitFailed
	}
	if err := write(stdout, result); err != nil {
		fmt.Fprintf(stderr, "crawl: %v\n", err)
		return exitFailed
	}
	select {
	case number := <-stopped:
		return exitSignal + int(number)
	default:
		return 0
	}
}

// untilSignal returns a context that ends with the first SIGTERM or SIGINT, and a channel that has its number then. A
// second signal ends the process at once.
func untilSignal() (context.Context, <-chan syscall.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 1)
	stopped := make(chan syscall.Signal, 1)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		number := (<-received).(syscall.Signal)
		signal.Stop(received)
		stopped <- number
		cancel()
	}()
	return ctx, stopped
}

func write(w io.Writer, result *crawler.Result) error {
	r, err := report.New(result)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err := r.WriteText(out); err != nil {
		return err
	}
	if err := r.WriteJSON(out); err != nil {
		return err
	}
	return out.Flush()
}
