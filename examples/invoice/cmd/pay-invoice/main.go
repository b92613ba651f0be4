// Command pay-invoice is the program in the Job of the tool pay_invoice: see the package payment.
//
// It exits with 0 when the invoice was decided on and the task has the result, with 1 when it was not and may be tried
// again, with 2 when a flag is wrong, and with 143 after SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcptask/mcptask/examples/invoice/erpclient"
	"github.com/mcptask/mcptask/examples/invoice/payment"
	"github.com/mcptask/mcptask/examples/invoice/taskcli"
)

const (
	exitAgain   = 1
	exitUsage   = 2
	exitStopped = 143
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// settings are what the command line and the Pod say.
type settings struct {
	request payment.Request
	work    payment.Work
	erp     string
	task    string
}

func readSettings(args []string) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("pay-invoice", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.request.Invoice, "invoice", "", "number of the invoice")
	flags.StringVar(&s.request.Vendor, "vendor", "", "who is to be paid")
	flags.StringVar(&s.request.Currency, "currency", "", "currency of the amount")
	flags.TextVar(&s.request.Amount, "amount", s.request.Amount, "amount of the invoice, with two decimals")
	flags.TextVar(&s.work.Tolerance, "tolerance", s.work.Tolerance, "by how much the ERP's amount may differ without a question")
	flags.DurationVar(&s.work.Pace, "pace", 0, "the least time that each step takes")
	flags.StringVar(&s.erp, "erp", "", "URL of the ERP")
	flags.StringVar(&s.task, "task-command", taskcli.Path, "the command that joins this program to its task")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	s.work.TaskID = os.Getenv("MCPTASK_TASK_ID")
	for name, value := range map[string]string{
		"--invoice": s.request.Invoice, "--vendor": s.request.Vendor, "--currency": s.request.Currency, "--erp": s.erp,
		"the variable MCPTASK_TASK_ID": s.work.TaskID,
	} {
		if value == "" {
			return s, fmt.Errorf("%s is required", name)
		}
	}
	if s.request.Amount == 0 {
		return s, errors.New("--amount must be above 0.00")
	}
	return s, nil
}

func run(args []string, stderr io.Writer) int {
	s, err := readSettings(args)
	if err != nil {
		fmt.Fprintf(stderr, "pay-invoice: %v\n", err)
		return exitUsage
	}
	if s.work.By, err = os.Hostname(); err != nil { // the Pod's name
		fmt.Fprintf(stderr, "pay-invoice: %v\n", err)
		return exitAgain
	}
	s.work.Warn = func(err error) { fmt.Fprintf(stderr, "pay-invoice: %v\n", err) }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	task := taskcli.New(s.task)
	s.work.Task, s.work.ERP = task, erpclient.New(s.erp, erpclient.DefaultTimeout)

	result, err := s.work.Do(ctx, s.request)
	longer, end := payment.Linger(ctx)
	defer end()
	switch {
	case err == nil:
		fmt.Fprintf(stderr, "pay-invoice: %s\n", result)
		err = task.Result(longer, result.ToolResult())
	case errors.Is(err, payment.ErrCancelled):
		fmt.Fprintf(stderr, "pay-invoice: %v\n", err)
		err = task.Cancelled(longer)
	case ctx.Err() != nil && !errors.Is(err, erpclient.ErrUncertain):
		fmt.Fprintln(stderr, "pay-invoice: told to stop before anything was paid")
		return exitStopped
	}
	if err != nil {
		fmt.Fprintf(stderr, "pay-invoice: %v\n", err)
		return exitAgain
	}
	return 0
}
