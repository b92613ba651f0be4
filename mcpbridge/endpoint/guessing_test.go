package endpoint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// guessing sends so many guessed ids to the endpoint over loopback, as one caller who may call tools but has no task, with the
// limits that the chart sets, while another caller has some hundred tasks. Half of the ids are random, and half are one
// letter away from a task that is there.
func guessing(t testing.TB, guesses int) {
	standard := limits.Limits{StoredTasksPerNamespace: 20000, StoredTasksPerCaller: 10000, RunningTasksPerCaller: 2000, CallsPerMinute: 1200, PollsPerSecond: 50}
	f := newFixture(t, func(c *Config) {
		c.Limits = standard
		c.Log = slog.New(slog.DiscardHandler) // a line for each look-up: what is measured is the bridge
		c.Audit = audit.New(c.Log, prometheus.NewRegistry())
	})
	f.offer("tool", nil)
	var known []string
	for range 300 {
		known = append(known, f.handle(t, "tool"))
	}
	var next atomic.Int64
	guess := func(n int64) string {
		if n%2 == 0 {
			return v1alpha1.NewTaskID()
		}
		id := []byte(known[n%int64(len(known))])
		at := 1 + int(n/2)%(len(id)-1)
		id[at] = 'a' + (id[at]-'a'+1)%26
		return string(id)
	}
	var templates []string
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		templates = append(templates, f.written(t, method, "mallory"))
	}

	before, readsBefore, writesBefore, began := heap(), f.cluster.readCount(), f.cluster.writes, time.Now()
	var mu sync.Mutex
	answers := map[string]int{}
	var guessers sync.WaitGroup
	for range 4 {
		guessers.Go(func() {
			connection, err := net.Dial("tcp", f.address())
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			from := bufio.NewReader(connection)
			for {
				const together = 50
				last := next.Add(together)
				if last > int64(guesses) {
					return
				}
				var sent strings.Builder
				for n := last - together; n < last; n++ {
					sent.WriteString(strings.ReplaceAll(templates[n%3], id, guess(n)))
				}
				if _, err := connection.Write([]byte(sent.String())); err != nil {
					t.Error(err)
					return
				}
				for range together {
					answer, err := answered(from)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					answers[answer]++
					mu.Unlock()
				}
				if last%10000 == 0 { // its owner is not kept from a task meanwhile
					if response := f.alice.Call(t, "tasks/get", map[string]any{"taskId": known[0]}); response.Error != nil {
						t.Errorf("the owner: %s", response.Raw)
					}
				}
			}
		})
	}
	guessers.Wait()
	took := time.Since(began)

	for answer, n := range answers {
		if answer != "400 -32602" && answer != "429 429" {
			t.Errorf("%d of the guesses are answered with %s", n, answer)
		}
	}
	// The look-ups are bounded by time, not by the guesses: those of one caller, and nothing is written.
	reads := f.cluster.readCount() - readsBefore
	if most := tasks.LookupBurst + tasks.LookupsPerSecond*int(took/time.Second+1); reads > most {
		t.Errorf("%d guesses in %s made %d requests to the API server; at most %d", guesses, took, reads, most)
	}
	if f.cluster.writes != writesBefore {
		t.Errorf("guesses wrote %d times", f.cluster.writes-writesBefore)
	}
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	t.Logf("%d guesses in %s: %d look-ups; answers %v", guesses, took.Round(time.Millisecond), reads, answers)
}

// written is a request for the task of the tests' id, as it goes over the wire.
func (f *fixture) written(t testing.TB, method, token string) string {
	t.Helper()
	request, err := f.alice.Request(t.Context(), method, map[string]any{"taskId": id, "inputResponses": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	var text strings.Builder
	if err := request.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// address is where the endpoint listens.
func (f *fixture) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(f.alice.URL, "http://"), "/mcp/team")
}

// answered reads an answer, and returns its HTTP status and the code of its error.
func answered(from *bufio.Reader) (string, error) {
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var message mcptest.Message
	if err := json.NewDecoder(answer.Body).Decode(&message); err != nil {
		return "", err
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || message.Error == nil {
		return fmt.Sprintf("%d %s", answer.StatusCode, message.Result), err
	}
	return fmt.Sprintf("%d %d", answer.StatusCode, message.Error.Code), nil
}

// heap is what is in use after a collection, in bytes.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestGuessedIDsFindNothingAndCostLittle(t *testing.T) { guessing(t, 100_000) }

// BenchmarkGuessedIDs is the same for as many guesses as are asked for: -benchtime 1000000x.
func BenchmarkGuessedIDs(b *testing.B) { guessing(b, b.N) }
