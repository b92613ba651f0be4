// Package recorder takes down what the work does. It runs outside of what is broken; the work goes on only once a deed
// is taken down, and says it again until then.
package recorder

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
	"github.com/mcptask/mcptask/test/chaos/work"
)

// Recorder is the service.
type Recorder struct {
	log *record.Log

	mu     sync.Mutex
	seen   map[key]bool
	starts map[string]int // by task
}

// key of a deed: said twice, it was done once.
type key struct {
	run     string
	ordinal int
}

// New writes to the log.
func New(log *record.Log) *Recorder {
	return &Recorder{log: log, seen: map[key]bool{}, starts: map[string]int{}}
}

// ServeHTTP takes down one deed and says how often the task's work has started.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 1<<20))
	var deed work.Deed
	if err == nil {
		err = json.Unmarshal(body, &deed)
	}
	if err != nil || deed.Run == "" {
		http.Error(w, "not a deed", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := (key{deed.Run, deed.Ordinal}); !r.seen[k] {
		r.seen[k] = true
		if deed.What == work.Started {
			r.starts[deed.Task]++
		}
		r.log.Deed(record.Deed{At: time.Now(), Task: deed.Task, Pod: deed.Pod, Run: deed.Run, Kind: deed.Kind, Nonce: deed.Nonce,
			Ordinal: deed.Ordinal, What: deed.What, Detail: deed.Detail})
	}
	_ = json.NewEncoder(w).Encode(work.Receipt{Starts: r.starts[deed.Task]}) // else it is said again
}
