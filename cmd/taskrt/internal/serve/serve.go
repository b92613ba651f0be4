// Package serve is the sidecar.
package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/bridge"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/resultfile"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/socket"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/upload"
)

const (
	// printAfter is how long after SIGTERM the last report may take before it is also printed. The kubelet leaves a sidecar
	// at least two seconds.
	printAfter = 1500 * time.Millisecond
	// lastReport is how long after SIGTERM the sidecar tries to bring its last report to the bridge.
	lastReport = 20 * time.Second
)

// LastReport is the key of the line that is printed when the last report may not have reached the bridge.
const LastReport = "mcptask.dev/report"

// Run serves until ctx is done, which is SIGTERM. Then the program has ended: Run brings what is left to the bridge, or prints it, and returns.
func Run(ctx context.Context, config Config, out io.Writer, log *slog.Logger) error {
	port, err := bridge.New(config.RuntimeURL, config.Namespace, config.TaskID, config.TokenFile)
	if err != nil {
		return err
	}
	if err := install(config.Program()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(config.Socket), 0o755); err != nil { //nolint:gosec // the work finds the socket here, whichever its user
		return err
	}
	store, state, err := openJournal(config.Journal(), log)
	if err != nil {
		return err
	}
	spool := &result.Spool{Folder: filepath.Dir(config.Socket), Limit: config.MaxResultBytes}
	if err := spool.Clear(state.Outcome.Kept(), state.NextOutcome.Kept()); err != nil {
		log.Warn("files of results that nobody needs cannot be removed", "reason", err.Error())
	}
	t := task.New(store, state, config.Asks, config.Index)
	uploader := upload.New(t, port, log)
	// There is one sidecar for each task: what a large result took must not stay with it.
	uploader.Idle = debug.FreeOSMemory
	file := &resultfile.File{Path: config.ResultFile(), Task: t, Spool: spool, Log: log}
	server := &socket.Server{Task: t, TaskID: config.TaskID, Namespace: config.Namespace, Asks: config.Asks, Spool: spool, Log: log}
	listener, err := socket.Listen(config.Socket)
	if err != nil {
		return err
	}

	// What serves the program goes on until the last report is out.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	failed := make(chan error, 1)
	parts.Go(func() { failed <- server.Serve(serving, listener) })
	parts.Go(func() { uploader.Run(serving) })
	watched := make(chan struct{})
	go func() { file.Watch(ctx); close(watched) }()

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	<-watched
	file.LastLook()
	return flush(serving, uploader, t, out)
}

// flush brings what is left to the bridge. After a while it prints it too, and goes on trying: there may be no more time than that.
func flush(ctx context.Context, uploader *upload.Uploader, t *task.Task, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, lastReport)
	defer cancel()
	soon, cancelSoon := context.WithTimeout(ctx, printAfter)
	defer cancelSoon()
	if uploader.Flush(soon) {
		return nil
	}
	if err := printReport(t, out); err != nil {
		return err
	}
	uploader.Flush(ctx)
	return nil
}

func printReport(t *task.Task, out io.Writer) error {
	pending := t.Pending()
	last, err := t.Report(pending)
	if err != nil {
		// Without a journal the sequence is not certain; the report is still worth reading.
		last = t.Snapshot().Report
	}
	large := task.FileOf(pending)
	if large != nil {
		last.ResultRef = nil // the line has the result itself
	}
	line, err := json.Marshal(map[string]report.Report{LastReport: last})
	if err != nil {
		return fmt.Errorf("print the last report: %w", err)
	}
	text := io.Reader(bytes.NewReader(append(line, '\n')))
	if large != nil {
		file, err := os.Open(large.Path)
		if err != nil {
			return fmt.Errorf("print the last report: %w", err)
		}
		defer file.Close()
		end := len(line) - len("}}")
		text = io.MultiReader(bytes.NewReader(line[:end]), strings.NewReader(`,"result":`),
			oneLine{io.NewSectionReader(file, large.Offset, large.Bytes)}, strings.NewReader("}}\n"))
	}
	if _, err := io.Copy(out, text); err != nil {
		return fmt.Errorf("print the last report: %w", err)
	}
	return nil
}

// oneLine makes one line of JSON: line feeds in it are white space.
type oneLine struct{ in io.Reader }

func (o oneLine) Read(p []byte) (int, error) {
	n, err := o.in.Read(p)
	for i, c := range p[:n] {
		if c == '\n' || c == '\r' {
			p[i] = ' '
		}
	}
	return n, err
}

// openJournal sets aside a journal that cannot be read: a sidecar that does not start would hold up the Job.
func openJournal(path string, log *slog.Logger) (*journal.Journal, *journal.State, error) {
	store, state, err := journal.Open(path)
	if err == nil {
		return store, state, nil
	}
	log.Error("the journal cannot be read; it is set aside, and a new one begun", "reason", err.Error())
	if err := os.Rename(path, path+".unreadable"); err != nil {
		return nil, nil, errors.Join(err, fmt.Errorf("set the journal aside: %w", err))
	}
	return journal.Open(path)
}
