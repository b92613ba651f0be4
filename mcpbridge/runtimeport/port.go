// Package runtimeport is where the Pods of tasks tell how far they are, ask questions, hand over results, and fetch the
// answers. What a Pod says is stored in its task's status; which of it counts, the controller decides.
package runtimeport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

const (
	// bodyTimeout and writeTimeout bound how long a caller may take to send its body and to accept the answer.
	bodyTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
)

// Config is what a Port is made of.
type Config struct {
	// Namespaces that are served; all when empty.
	Namespaces []string
	// Tokens identifies Pods by their tokens.
	Tokens  auth.Authenticator
	Store   *tasks.Store
	API     tasks.API
	Secrets tasks.Secrets
	// MaxResultBytes is how much of a result the tool of a task keeps; 0 where that is not known.
	MaxResultBytes func(*v1alpha1.McpTask) int64
	Log            *slog.Logger
	Audit          *audit.Log
	Registry       prometheus.Registerer
}

// Port serves the Pods of tasks over HTTP.
type Port struct {
	Config
	finder   *tasks.Finder
	writer   *writer
	metrics  *metrics
	bounds   *bounds
	rooms    *limits.Rooms[types.UID] // large reports that arrive
	polls    *polls
	uploads  *uploads
	mux      *http.ServeMux
	draining context.Context
	drain    context.CancelFunc
}

// New makes a Port.
func New(config Config) *Port {
	p := &Port{Config: config, metrics: newMetrics(config.Registry), bounds: newBounds(), uploads: newUploads(),
		rooms: limits.NewRooms[types.UID](maxReports, maxReportsOfPod), mux: http.NewServeMux()}
	p.draining, p.drain = context.WithCancel(context.Background())
	p.finder = tasks.NewFinder(config.Store, config.API, p.metrics.liveReads.Inc)
	p.writer = newWriter(p.draining, config.Store, config.API, p.metrics)
	p.polls = newPolls(p.metrics.waiting)
	const task = "/v1/namespaces/{namespace}/tasks/{task}"
	p.mux.Handle("PUT "+task+"/report", p.serve("report", p.takeReport))
	p.mux.Handle("PUT "+task+"/results/{sha256}", p.serve("results", p.takeResult))
	p.mux.Handle("GET "+task+"/answers", p.serve("answers", p.giveAnswers))
	p.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusNotFound, failure{"there is nothing at this address"})
	})
	return p
}

// ServeHTTP implements http.Handler.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// In force until the body is read whole: net/http itself reads what a handler that refuses a request leaves of it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	if path.Clean(r.URL.Path) != r.URL.Path { // the mux would answer with a redirection, which repeats the path
		send(w, http.StatusNotFound, failure{"there is nothing at this address"})
		return
	}
	p.mux.ServeHTTP(w, r)
}

// Drain makes those who wait be answered with what there is to say now, because the bridge is about to end. Reports that
// are held back are written at once.
func (p *Port) Drain() { p.drain() }

// Wait returns when no report waits to be written, or when ctx ends.
func (p *Port) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { p.writer.writing.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("reports of Pods are still being written: %w", ctx.Err())
	}
}

// exchange is one request of a Pod.
type exchange struct {
	w      http.ResponseWriter
	http   *http.Request
	method string
	key    types.NamespacedName
	// pod and task are set once the caller is known to be a Pod of the task.
	pod  auth.Principal
	task *v1alpha1.McpTask
}

// failure is the answer to a request that was refused.
type failure struct {
	Error string `json:"error"`
}

// refusal is why a request is not served.
type refusal struct {
	status int
	// reason is the metric's label, one of a small set.
	reason string
	// words for those who wrote the program that called.
	words string
	// audit says why in the log, where the caller is told less or the refusal is about who calls; else "".
	audit string
}

func (r *refusal) Error() string { return r.words }

// serve takes a request through the checks and to its method.
func (p *Port) serve(method string, handle func(*exchange) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{w: w, http: r, method: method,
			key: types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("task")}}
		err := p.admit(x)
		var answer any
		if err == nil {
			answer, err = handle(x)
		}
		if err != nil {
			p.refuse(x, err)
			return
		}
		send(w, http.StatusOK, answer)
	})
}

// refuse answers with what is wrong. An error of our own is named in the log, and the answer refers to it.
func (p *Port) refuse(x *exchange, err error) {
	var why *refusal
	if !errors.As(err, &why) {
		if x.http.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return // the caller has left: nobody reads this, and nothing is wrong
		}
		id := rand.Text()[:12]
		p.Log.Error("internal error", "errorId", id, "namespace", x.key.Namespace, "task", x.key.Name, "method", "runtime/"+x.method,
			"principal", x.pod.String(), "error", err)
		why = &refusal{status: http.StatusServiceUnavailable, reason: "internal",
			words: "internal error; the log of the bridge names the cause under the id " + id}
	}
	p.metrics.refusals.WithLabelValues(x.method, why.reason).Inc()
	if why.audit != "" {
		p.Audit.Write(audit.Event{Outcome: audit.Denied, Why: why.audit, Who: x.pod, Method: "runtime/" + x.method,
			Namespace: x.key.Namespace, Task: x.key.Name, Remote: x.http.RemoteAddr})
	}
	switch why.status {
	case http.StatusUnauthorized:
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		x.w.Header().Set("Retry-After", "1")
	}
	send(x.w, why.status, failure{why.words})
}

func send(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil { // an answer that was stored is JSON
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	// Not every ResponseWriter has deadlines; then there are no slow callers either.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller has left: there is nobody to tell
}
