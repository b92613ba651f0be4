package order

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Entry is what is known of an order.
type Entry struct {
	// Call marks all tries of the order's one call as the same (mcptask.dev/idempotencyKey). It is written before the first try.
	Call string `json:"call"`
	// Task is the handle of the task that the call became.
	Task string `json:"task,omitempty"`
	// Reserved says that the stock is kept.
	Reserved bool `json:"reserved,omitempty"`
	// Outcome is how the payment ended; empty as long as it has not.
	Outcome Outcome `json:"outcome,omitempty"`
	// Detail says more about the outcome.
	Detail string `json:"detail,omitempty"`
}

// Journal is the caller's memory: a JSON file that is replaced whole with each change.
type Journal struct {
	path string

	mu      sync.Mutex
	entries map[string]Entry
}

// OpenJournal reads the file; when there is none it begins with nothing.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{path: path, entries: map[string]Entry{}}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, &j.entries); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, nil
}

// Entry is what is known of an order.
func (j *Journal) Entry(order string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry, ok := j.entries[order]
	return entry, ok
}

// begin makes sure that there is an entry for an order.
func (j *Journal) begin(order string) (Entry, error) {
	return j.change(order, func(e *Entry) {
		if e.Call == "" {
			e.Call = rand.Text()
		}
	})
}

// change changes an order's entry; it returns once the change is on the disk.
func (j *Journal) change(order string, change func(*Entry)) (Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.entries[order]
	change(&entry)
	if j.entries[order] == entry {
		return entry, nil
	}
	before := j.entries[order]
	j.entries[order] = entry
	if err := j.save(); err != nil {
		j.entries[order] = before
		return before, fmt.Errorf("writing the journal: %w", err)
	}
	return entry, nil
}

func (j *Journal) save() error {
	text, err := json.MarshalIndent(j.entries, "", "  ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(j.path), filepath.Base(j.path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // it is gone when it has taken the journal's place
	_, err = next.Write(append(text, '\n'))
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), j.path)
}
