// Package journal keeps what the sidecar must not forget when it is restarted.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
)

// State is what the journal holds. It is written whole each time.
type State struct {
	// Sequence is the largest that a report may have left with.
	Sequence  int64            `json:"sequence"`
	Progress  *report.Progress `json:"progress,omitempty"`
	StateName string           `json:"stateName,omitempty"`
	Asks      []*Ask           `json:"asks,omitempty"`
	// Outcome is the last one that the bridge has; NextOutcome is on its way there.
	Outcome     *Outcome `json:"outcome,omitempty"`
	NextOutcome *Outcome `json:"nextOutcome,omitempty"`
	// ResultFile is the hash of the result file that was last taken, so that it is not taken again over a later outcome.
	ResultFile string `json:"resultFile,omitempty"`
}

// Ask is what a program asked at once.
type Ask struct {
	// ID is the program's own name for it: who comes again with it wants the same answers.
	ID        string                `json:"id"`
	Questions []report.InputRequest `json:"questions"`
	// Stored says that the bridge has the questions.
	Stored bool `json:"stored,omitempty"`
}

// Outcome is how the program said that its work ended.
type Outcome struct {
	Outcome string          `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	// File has the result instead, where that is large.
	File *result.File `json:"file,omitempty"`
	// ResultSize is the size in bytes of what the program handed over, where some of it was left out of Result.
	ResultSize int64         `json:"resultSize,omitempty"`
	Error      *report.Error `json:"error,omitempty"`
}

// Kept is the file that an outcome needs, nil where there is none.
func (o *Outcome) Kept() *result.File {
	if o == nil {
		return nil
	}
	return o.File
}

// Lost is the outcome instead of one whose large result the bridge does not take, for the reason that these words give.
func (o *Outcome) Lost(words string) Outcome {
	made, err := result.Lost(o.File, words)
	if err != nil {
		// Words always are JSON.
		made = []byte(`{"content":[]}`)
	}
	return Outcome{Outcome: report.OutcomeResult, Result: made, ResultSize: o.File.Bytes}
}

// Questions are all questions asked so far, in order.
func (s *State) Questions() []report.InputRequest {
	var all []report.InputRequest
	for _, ask := range s.Asks {
		all = append(all, ask.Questions...)
	}
	return all
}

// maxBytes bounds a journal that is read: two outcomes and all questions of a report, and some room.
const maxBytes = 4 * report.MaxBytes

// Journal is the file.
type Journal struct{ path string }

// Open returns the journal at a path and what it holds; nothing when there is none yet.
func Open(path string) (*Journal, *State, error) {
	j := &Journal{path: path}
	file, err := os.Open(path) //nolint:gosec // the sidecar's own file
	if errors.Is(err, fs.ErrNotExist) {
		return j, &State{}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", err)
	}
	state, err := Decode(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, state, nil
}

// Decode reads a journal.
func Decode(data []byte) (*State, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("journal has more than %d bytes", maxBytes)
	}
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if state.Sequence < 0 {
		return nil, errors.New("journal: sequence is negative")
	}
	for i, ask := range state.Asks {
		if ask == nil || ask.ID == "" || len(ask.Questions) == 0 {
			return nil, fmt.Errorf("journal: asks[%d] has no id or no questions", i)
		}
		for _, q := range ask.Questions {
			if q.Key == "" {
				return nil, fmt.Errorf("journal: asks[%d] has a question without a key", i)
			}
		}
	}
	return &state, nil
}

// Save writes the state; when it returns, the state survives a crash of the process and of the machine.
func (j *Journal) Save(state *State) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	next := j.path + ".next"
	if err := write(next, data); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.Rename(next, j.path); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := syncFolder(filepath.Dir(j.path)); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

func write(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the sidecar's own file
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncFolder(path string) error {
	folder, err := os.Open(path) //nolint:gosec // the sidecar's own folder
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
