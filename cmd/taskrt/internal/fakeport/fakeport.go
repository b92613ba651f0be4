// Package fakeport is the bridge's runtime port for tests: it keeps what it is told, and gives the answers that a test puts into it.
package fakeport

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// Namespace, TaskID and Token are the only ones that the port knows.
const (
	Namespace = "default"
	TaskID    = "tabcdefghijklmnopqrstuvwxy"
	Token     = "the-pods-token"
)

// Refuse decides about a report before it is stored: status 0 stores it.
type Refuse func(report.Report) (status int, words string)

// Port is the runtime port of one task.
type Port struct {
	// TokenFile has the token that the port wants.
	TokenFile string

	t       testing.TB
	address string

	mu      sync.Mutex
	server  *http.Server
	refuse  Refuse
	tries   int
	polls   int
	reports []report.Report
	answers []report.Answer
	results map[string][]byte
	changed chan struct{}
	ended   bool
}

// New starts a port that ends with the test.
func New(t testing.TB) *Port {
	p := &Port{t: t, address: "127.0.0.1:0", results: map[string][]byte{}, changed: make(chan struct{}), TokenFile: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(p.TokenFile, []byte(Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// URL is where the port is, also while it is stopped.
func (p *Port) URL() string { return "http://" + p.address }

// Start serves, at the same address as before.
func (p *Port) Start() {
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = listener.Addr().String()
	mux := http.NewServeMux()
	base := "/v1/namespaces/" + Namespace + "/tasks/" + TaskID
	mux.HandleFunc("PUT "+base+"/report", p.put)
	mux.HandleFunc("PUT "+base+"/results/{sha256}", p.putResult)
	mux.HandleFunc("GET "+base+"/answers", p.get)
	server := &http.Server{Handler: p.authenticated(mux), ReadHeaderTimeout: time.Minute}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
}

// Stop cuts every connection, and refuses new ones.
func (p *Port) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.server.Close()
}

// Refuse sets how reports are refused; nil stores all.
func (p *Port) Refuse(refuse Refuse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// End makes the task one that has ended.
func (p *Port) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.touch()
}

// Answer answers a question.
func (p *Port) Answer(key, response string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = append(p.answers, report.Answer{Key: key, Response: json.RawMessage(response)})
	p.touch()
}

// Last is the report stored last.
func (p *Port) Last() report.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reports) == 0 {
		return report.Report{}
	}
	return p.reports[len(p.reports)-1]
}

// Reports are all that were stored.
func (p *Port) Reports() []report.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]report.Report(nil), p.reports...)
}

// Result is the result that a report names or has itself.
func (p *Port) Result(r report.Report) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.ResultRef != nil {
		return string(p.results[r.ResultRef.SHA256])
	}
	return string(r.Result)
}

// Tries is the number of reports that came, stored or not.
func (p *Port) Tries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

// Polls is the number of requests for answers.
func (p *Port) Polls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polls
}

// AwaitReport waits for a report that suits, and returns it.
func (p *Port) AwaitReport(suits func(report.Report) bool) report.Report {
	p.t.Helper()
	Await(p.t, "a report", func() bool { return suits(p.Last()) })
	return p.Last()
}

// Await waits until something holds.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (p *Port) touch() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Port) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+Token {
			fail(w, http.StatusUnauthorized, "the token is not valid")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *Port) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, report.MaxBytes))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	var sent report.Report
	if err := json.Unmarshal(body, &sent); err != nil {
		fail(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	p.mu.Lock()
	refuse := p.refuse
	p.tries++
	ended := p.ended
	p.mu.Unlock()
	if ended {
		fail(w, http.StatusGone, "the task has ended")
		return
	}
	if refuse != nil {
		if status, words := refuse(sent); status != 0 {
			fail(w, status, words)
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	stored := int64(0)
	if len(p.reports) > 0 {
		stored = p.reports[len(p.reports)-1].Sequence
	}
	if sent.Sequence > stored {
		p.reports = append(p.reports, sent)
		stored = sent.Sequence
	}
	reply(w, http.StatusOK, map[string]int64{"sequence": stored})
}

func (p *Port) putResult(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	if err != nil || int64(len(body)) != r.ContentLength || hex.EncodeToString(sum[:]) != r.PathValue("sha256") {
		fail(w, http.StatusUnprocessableEntity, "the result is not what was said")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[r.PathValue("sha256")] = body
	reply(w, http.StatusOK, map[string]int64{})
}

func (p *Port) get(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
	deadline := time.After(time.Duration(wait) * time.Second)
	p.mu.Lock()
	p.polls++
	p.mu.Unlock()
	for {
		p.mu.Lock()
		changed, ended := p.changed, p.ended
		answers := append([]report.Answer{}, p.answers...)
		p.mu.Unlock()
		if ended {
			fail(w, http.StatusGone, "the task has ended")
			return
		}
		if len(answers) > after {
			reply(w, http.StatusOK, report.Answers{Count: len(answers), Answers: answers})
			return
		}
		select {
		case <-changed:
		case <-deadline:
			reply(w, http.StatusOK, report.Answers{Count: len(answers), Answers: answers})
			return
		case <-r.Context().Done():
			return
		}
	}
}

func fail(w http.ResponseWriter, status int, words string) {
	reply(w, status, map[string]string{"error": words})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
