// Command erp is a small ERP system to try pay_invoice on: see the package erp. It writes what it records to the --record
// file and goes on with it when it is started again.
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

	"github.com/mcptask/mcptask/examples/invoice/erp"
)

func main() {
	addr := flag.String("addr", ":8080", "where to listen")
	books := flag.String("books", "", "JSON file with the invoices that the ERP knows")
	record := flag.String("record", "", "file with all that was recorded; made when it is missing")
	var faults erp.Faults
	flag.Uint64Var(&faults.Seed, "seed", 1, "the pattern of the faults")
	flag.Float64Var(&faults.Busy, "busy", 0, "share of the requests that are answered with 503, from 0 to 1")
	flag.BoolVar(&faults.Accidents, "accidents", false, "whether the first payment of each invoice meets an accident")
	flag.DurationVar(&faults.Hang, "hang", 10*time.Second, "how long a request hangs in an accident")
	flag.Parse()
	if flag.NArg() > 0 || *books == "" || *record == "" || faults.Busy < 0 || faults.Busy > 1 {
		fmt.Fprintln(os.Stderr, "erp: --books and --record are needed, --busy is from 0 to 1, and there are no arguments")
		os.Exit(2)
	}
	if err := serve(*addr, *books, *record, faults); err != nil {
		fmt.Fprintf(os.Stderr, "erp: %v\n", err)
		os.Exit(1)
	}
}

func serve(addr, booksFile, recordFile string, faults erp.Faults) (err error) {
	books, err := erp.ReadBooks(booksFile)
	if err != nil {
		return fmt.Errorf("--books: %w", err)
	}
	ledger, err := erp.OpenLedger(recordFile, books)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Addr: addr, Handler: erp.NewServer(ledger, faults).Handler(), ReadHeaderTimeout: 10 * time.Second}
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- server.Shutdown(grace)
	}()
	fmt.Fprintf(os.Stderr, "erp: %d invoices, %d entries recorded before, on %s\n", len(books), len(ledger.Record()), addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}
