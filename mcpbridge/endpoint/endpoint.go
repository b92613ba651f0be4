// Package endpoint is the MCP endpoint: one for each namespace. A thin handler checks every request and answers the
// task methods itself; server/discover and the tools go through the MCP SDK.
package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/access"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/seal"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// Config is what an Endpoint is made of.
type Config struct {
	// PublicURL is the URL under which callers reach the bridge, without a slash at its end. It makes the audiences.
	PublicURL string
	// DefaultNamespace is served at /mcp too; none when empty.
	DefaultNamespace string
	// Namespaces that are served; all when empty.
	Namespaces []string
	// AllowedHosts are accepted in the Host header beside the public URL's, localhost and addresses; * is any.
	AllowedHosts []string
	// MaxBodyBytes bounds the body of a request.
	MaxBodyBytes int64
	// MaxWaitingCalls bounds the calls that wait for their result at one time.
	MaxWaitingCalls int64
	// Limits bound what a caller, a tool and a namespace may use.
	Limits limits.Limits
	// MaxStreamsPerCaller bounds the streams of notifications that one caller may have open, MaxStreams those of all.
	MaxStreamsPerCaller, MaxStreams int64
	// TolerateMissingName accepts task methods without the Mcp-Name header, for clients that leave it out.
	TolerateMissingName bool
	// Keys are the secrets that all replicas share.
	Keys *seal.Keys
	// Server is how the bridge introduces itself.
	Server wire.ServerInfo
	// AuthorizationServers are the issuers that give callers tokens, and Scopes what these must have been granted; both may
	// be empty.
	AuthorizationServers, Scopes []string

	Authenticator auth.Authenticator
	// Access says who may call which tool.
	Access  access.Policy
	Audit   *audit.Log
	Store   *tasks.Store
	API     tasks.API
	Secrets tasks.Secrets
	Log     *slog.Logger
	Metrics *Metrics
}

// Endpoint serves MCP over HTTP.
type Endpoint struct {
	Config
	// Tools are what is offered. The owner of the watch keeps it in step.
	Tools *tools.Catalog

	rules, legacyRules map[string]rule

	finder   *tasks.Finder
	payloads *tasks.Payloads
	paces    *paces
	hosts    hosts
	origins  *http.CrossOriginProtection
	json     http.Handler // the SDK, answering with one JSON object
	sse      http.Handler // the SDK, answering with a stream
	mux      *http.ServeMux

	bodyTimeout time.Duration

	draining chan struct{}
	drain    sync.Once
	calls    sync.WaitGroup // tool calls under way
	slots    chan struct{}  // one for each waiting call

	subscriptions *subscriptions
	listeners     *listeners
	shown         *shown
	deliveries    *limits.Rooms[caller] // large results on their way to clients
	bodies        *limits.Rooms[caller] // large bodies that arrive
}

// New makes an Endpoint.
func New(config Config) *Endpoint {
	e := &Endpoint{
		Config:      config,
		rules:       methods(),
		legacyRules: legacyMethods(),
		finder:      tasks.NewFinder(config.Store, config.API, config.Metrics.liveReads.Inc),
		payloads:    tasks.NewPayloads(config.Server, tasks.NewResults(config.Store, config.API, config.Secrets, config.Metrics.resultReads.Inc)),
		paces:       newPaces(config.Limits),
		hosts:       newHosts(config.PublicURL, config.AllowedHosts),
		origins:     newOrigins(config.PublicURL),
		mux:         http.NewServeMux(),
		bodyTimeout: bodyTimeout,
		draining:    make(chan struct{}),
		slots:       make(chan struct{}, config.MaxWaitingCalls),

		subscriptions: newSubscriptions(&config),
		listeners:     newListeners(&config),
		shown:         newShown(),
		deliveries:    limits.NewRooms[caller](maxDelivered, maxDeliveredToCaller),
		bodies:        limits.NewRooms[caller](maxBodies, maxBodiesOfCaller),
	}
	e.Tools = tools.NewCatalog(e.newServer, config.Log, func(n int) { config.Metrics.toolsLeftOut.Set(float64(n)) })
	server := func(r *http.Request) *mcp.Server { return e.Tools.Server(exchangeOf(r.Context()).namespace) }
	quiet := slog.New(slog.DiscardHandler)
	e.json = mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, Logger: quiet, DisableLocalhostProtection: true,
		PropagateRequestCancellation: true, MaxRequestBodyBytes: -1, // the body was read and bounded here
	})
	e.sse = mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: quiet, DisableLocalhostProtection: true,
		PropagateRequestCancellation: true, MaxRequestBodyBytes: -1,
	})
	e.serveMetadata()
	e.mux.HandleFunc("/mcp/{namespace}", func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		e.serve(w, r, namespace, []string{e.PublicURL + "/mcp/" + namespace})
	})
	e.mux.HandleFunc("/", serveNothing)
	if e.DefaultNamespace != "" {
		e.mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
			e.serve(w, r, e.DefaultNamespace, []string{e.PublicURL + "/mcp/" + e.DefaultNamespace, e.PublicURL + "/mcp"})
		})
	}
	return e
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limitWrite(w)
	// In force until the body is read whole: net/http itself reads what a handler that refuses a request leaves of it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(e.bodyTimeout))
	if !canonical(r.URL.Path) { // the mux would answer with a redirection, which repeats the path
		serveNothing(w, r)
		return
	}
	e.mux.ServeHTTP(w, r)
}

// Drain makes the waiting calls answer with what there is to say now, and ends the streams of notifications, because the
// bridge is about to end.
func (e *Endpoint) Drain() {
	e.drain.Do(func() {
		close(e.draining)
		e.subscriptions.drain()
	})
}

// Wait returns when no tool call is under way, or when ctx ends.
func (e *Endpoint) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { e.calls.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("tool calls are still under way: %w", ctx.Err())
	}
}

// exchange is one request and its answer.
type exchange struct {
	w         http.ResponseWriter
	http      *http.Request
	namespace string
	audiences []string
	principal auth.Principal
	request   *wire.Request
	era       era
	// session of the request, in the older revisions.
	session *session
	// streaming says that the answer has begun as a stream of events that the exchange itself writes.
	streaming bool
	// task is the caller's own task that the request is about, where its method's rule asks for one.
	task *v1alpha1.McpTask
	// tool is the tool that is called; nil where there is none that the caller may call.
	tool *tools.Tool
	// stream is the answer of a method that the SDK serves.
	stream *stream
	// leave gives back what the request and its answer take of the memory, once the answer is written.
	leave []func()
	// label is the method, for the metrics: one of a small set.
	label string
	// outcome is a string of a small set too; the SDK's goroutine sets it.
	outcome atomic.Value
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// serve takes one request through the checks and to its method.
func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request, namespace string, audiences []string) {
	start := time.Now()
	x := &exchange{w: w, http: r, namespace: namespace, audiences: audiences, request: &wire.Request{}, era: eraOf(r), label: "other"}
	x.outcome.Store("ok")
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(p)
			}
			failure := e.internal(x, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			failure.Status = http.StatusInternalServerError
			if x.stream == nil || !x.stream.begun() {
				x.fail(failure)
			}
		}
		for _, leave := range x.leave {
			leave()
		}
		e.Metrics.observe(x, time.Since(start))
	}()
	rule, failure := e.admit(x)
	if failure != nil {
		x.fail(failure)
		return
	}
	if rule.serve == nil { // a notification
		w.WriteHeader(http.StatusAccepted)
		return
	}
	rule.serve(e, x)
}

// served says whether the namespace has an endpoint here.
func (e *Endpoint) served(namespace string) bool {
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return false
	}
	for _, name := range e.Namespaces {
		if name == namespace {
			return true
		}
	}
	return len(e.Namespaces) == 0
}
