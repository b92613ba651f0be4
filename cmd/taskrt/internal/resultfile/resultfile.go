// Package resultfile takes the result that a program puts into /mcptask/result.json.
package resultfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
)

// Every is the time between two looks. Looking is cheaper than being told: the inotify instances of a node are few, and shared by
// all Pods with one user id.
const Every = 250 * time.Millisecond

// File is the result file of a task.
type File struct {
	Path  string
	Task  *task.Task
	Spool *result.Spool
	Log   *slog.Logger

	seen fs.FileInfo
}

// Watch takes the file whenever it has changed, until ctx is done or the task has ended.
func (f *File) Watch(ctx context.Context) {
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	for {
		f.look()
		select {
		case <-ticker.C:
		case <-f.Task.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

// look takes the file if it is new and whole. A file that is written in place is not whole for a while: a part of
// a JSON object is none.
func (f *File) look() {
	info, err := os.Lstat(f.Path)
	if err != nil || f.seen != nil && os.SameFile(info, f.seen) && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime()) && info.Mode() == f.seen.Mode() {
		return
	}
	hash, taken, err := f.read()
	if err == nil {
		err = f.Task.FinishWithFile(hash, taken, insteadOf(taken))
	}
	if err != nil {
		f.Log.Info("the result file is not taken yet", "file", f.Path, "reason", err.Error())
	}
	f.seen = info
}

// LastLook takes the file after the program has ended. What is wrong with it becomes the result.
func (f *File) LastLook() {
	hash, taken, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = f.Task.FinishWithFile(hash, taken, insteadOf(taken))
	}
	if err == nil || errors.Is(err, task.ErrEnded) {
		return
	}
	f.Log.Warn("the result file is not taken", "file", f.Path, "reason", err.Error())
	if err := f.Task.FinishWithFile(hash+" refused", refused(err.Error()), nil); err != nil {
		f.Log.Warn("this could not be told to the task", "reason", err.Error())
	}
}

// insteadOf is what is handed over where the bridge does not take a result: of a large one nobody says that it is wrong.
func insteadOf(o journal.Outcome) func(words string) journal.Outcome {
	if o.File != nil {
		return o.Lost
	}
	return refused
}

// refused is the result of a tool whose result file is wrong.
func refused(words string) journal.Outcome {
	made, err := result.Failure("The tool's result could not be taken: result.json " + words)
	if err != nil {
		// Words always are JSON.
		made = []byte(`{"content":[],"isError":true}`)
	}
	return journal.Outcome{Outcome: report.OutcomeResult, Result: made}
}

// read returns the result that the file holds, as an outcome, and the hash of the file.
func (f *File) read() (hash string, o journal.Outcome, err error) {
	o.Outcome = report.OutcomeResult
	// The sidecar reads more than the program may: it follows no link, and does not wait for a pipe.
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", o, fmt.Errorf("cannot be read by the sidecar (user id %d): make it readable for all, or use task result --json", os.Getuid())
	case errors.Is(err, syscall.ELOOP):
		return "", o, errors.New("is a symbolic link: it must be a file")
	case err != nil:
		return "", o, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", o, err
	}
	if !info.Mode().IsRegular() {
		return "", o, errors.New("is not a file")
	}
	taken, err := f.Spool.Take(file)
	o.Result, o.File, o.ResultSize = taken.Result, taken.File, taken.Size
	return taken.SHA256, o, err
}
