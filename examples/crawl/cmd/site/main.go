// Command site serves a made-up web site for crawlers to be measured against. What a crawl of it must find is at
// /truth.json, which no page links to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/site"
)

func main() {
	addr := flag.String("addr", ":8080", "where to listen")
	pages := flag.Int("pages", 10000, "number of pages")
	broken := flag.Int("broken", 137, "number of broken links")
	flag.Parse()

	plan := site.Plan{Pages: *pages, Broken: *broken}
	if err := plan.Check(); err != nil {
		fmt.Fprintf(os.Stderr, "site: --%v\n", err)
		os.Exit(2)
	}
	if err := serve(*addr, plan); err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
}

func serve(addr string, plan site.Plan) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Addr: addr, Handler: plan.Handler(), ReadHeaderTimeout: 10 * time.Second}
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- server.Shutdown(grace)
	}()
	fmt.Fprintf(os.Stderr, "site: %d pages, %d broken links, on %s\n", plan.Pages, plan.Broken, addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}
