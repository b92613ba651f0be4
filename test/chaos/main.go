// Command chaos runs tasks of all kinds while it breaks whatever there is to be broken, and then judges by what clients,
// the work and the cluster saw whether mcptask kept its promises. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
	"github.com/mcptask/mcptask/test/chaos/schedule"
	"github.com/mcptask/mcptask/test/chaos/verdict"
)

func main() {
	ctx, enough := untilSignals()
	if err := run(ctx, enough); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// untilSignals returns what the first signal ends, faults, and what the second ends, everything. A run that is stopped once is still
// mended, waited for and judged.
func untilSignals() (ctx, enough context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	enough, noMore := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(os.Stderr, "chaos: no further faults; what was made is mended and judged. Once more ends it at once.")
		noMore()
		<-signals
		stop()
	}()
	return ctx, enough
}

// errViolations is for a run that went through and found something.
var errViolations = errors.New("promises were broken; see above")

// run does what the flags say, until ctx is done; it makes no fault after enough is done.
func run(ctx, enough context.Context) error {
	s := settings{}
	var seed, judge string
	var only bool
	flag.StringVar(&seed, "seed", "1", "what the schedule of faults and the calls are made of: a number")
	flag.IntVar(&s.faults, "faults", 12, "how many faults there are")
	flag.StringVar(&s.image, "image", "mcptask.dev/examples:dev", "image of the work")
	flag.StringVar(&s.program, "program", "bin/cluster", "program that runs the local cluster; empty: what kubectl cannot do is left out")
	flag.StringVar(&s.cluster, "cluster", "mcptask", "name of the local cluster")
	flag.StringVar(&s.folder, "folder", "bin/chaos", "where the record and, after a violation, logs and objects are kept")
	flag.IntVar(&s.accounts, "accounts", 2, "how many callers there are; each has a client of either revision")
	flag.IntVar(&s.atOnce, "at-once", 2, "how many tasks each client has at a time")
	flag.DurationVar(&s.limit, "limit", 0, "when to stop making faults; 0: ten seconds for each, and ten minutes")
	flag.StringVar(&s.recorderHost, "recorder-host", "", "address of this machine that Pods reach; empty: that of the local cluster's API server")
	flag.BoolVar(&only, "plan", false, "print the schedule, and do nothing")
	flag.StringVar(&judge, "judge", "", "judge the record in this file again, and do nothing else")
	flag.Parse()
	var err error
	if s.seed, err = strconv.ParseUint(seed, 10, 64); err != nil || s.faults < 0 {
		return fmt.Errorf("-seed must be a number, and -faults not negative")
	}
	if judge != "" {
		log, err := record.Load(judge)
		if err != nil {
			return err
		}
		return pronounce(log)
	}
	plan := schedule.Plan(s.seed, s.faults)
	if only {
		for _, fault := range plan {
			fmt.Println(fault)
		}
		return nil
	}
	if s.limit == 0 {
		s.limit = time.Duration(s.faults)*10*time.Second + 10*time.Minute
	}
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		return err
	}
	r, err := prepare(ctx, s)
	if err != nil {
		return err
	}
	log, err := r.run(ctx, enough, plan)
	if err != nil {
		r.keep()
		return errors.Join(err, r.remove())
	}
	if err := pronounce(log); err != nil {
		r.keep()
		return errors.Join(fmt.Errorf("%w; the record, logs and objects are in %s; again with SEED=%d FAULTS=%d", err, s.folder, s.seed, s.faults), r.remove())
	}
	if err := r.remove(); err != nil {
		return err
	}
	if r.made < len(plan) {
		return fmt.Errorf("stopped after %d of %d faults; no promise was broken until then", r.made, len(plan))
	}
	return nil
}

// pronounce prints the judgement.
func pronounce(log *record.Log) error {
	report := verdict.Judge(log)
	report.Print(os.Stdout)
	if len(report.Violations) > 0 {
		return errViolations
	}
	return nil
}

// recordFile is where all that was seen is kept.
func (s *settings) recordFile() string { return filepath.Join(s.folder, "record.jsonl") }
