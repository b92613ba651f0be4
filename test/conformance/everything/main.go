// Command everything serves what the full sets of the official MCP conformance suite ask for: the bridge's own endpoint,
// with its tasks in memory instead of a cluster, and behind it what a bridge does not have. It is for tests alone:
//
//	go run ./test/conformance/everything --address 127.0.0.1:3000
//	cd test/conformance && node_modules/node/bin/node node_modules/@modelcontextprotocol/conformance/dist/index.js \
//	    server --url http://127.0.0.1:3000/mcp --requirements 2026-07-28
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/access"
	"github.com/mcptask/mcptask/mcpbridge/endpoint"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/seal"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const namespace = "conformance"

func main() {
	address := flag.String("address", "127.0.0.1:3000", "where to listen; the suite wants a loopback address")
	flag.Parse()
	e, err := newEverything(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		fmt.Printf("http://%s/mcp\n", *address)
		server := &http.Server{Addr: *address, Handler: e.front, ReadHeaderTimeout: 10 * time.Second}
		err = server.ListenAndServe()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// everything is the bridge's endpoint with all that the suite asks for.
type everything struct {
	*front
	endpoint *endpoint.Endpoint

	mu      sync.Mutex
	changed bool // the tool that comes and goes is there
}

func newEverything(log *slog.Logger) (*everything, error) {
	keys, err := seal.NewKeys([]byte(strings.Repeat("k", 32)))
	if err != nil {
		return nil, err
	}
	store := tasks.NewStore(nil)
	cluster := newCluster(store)
	metrics := prometheus.NewRegistry()
	e := &everything{endpoint: endpoint.New(endpoint.Config{
		DefaultNamespace: namespace, AllowedHosts: []string{"localhost", "127.0.0.1", "[::1]"},
		MaxBodyBytes: maxBody, MaxWaitingCalls: 100, MaxStreamsPerCaller: 100, MaxStreams: 100, Limits: limits.Default(),
		Keys: keys, Server: wire.ServerInfo{Name: "mcptask-bridge", Version: "conformance"},
		Authenticator: auth.Sources{Anonymous: true}, Access: access.Everyone{}, Store: store, API: cluster,
		Log: log, Audit: audit.New(log, metrics), Metrics: endpoint.NewMetrics(metrics),
	})}
	works := map[string]work{}
	for _, t := range tools(e) {
		works[t.name] = t.do
		e.endpoint.Tools.Observe(t.object())
	}
	cluster.start = func(task *v1alpha1.McpTask) { go cluster.run(task, works[task.Spec.ToolName]) }
	fixtures := newFixtures()
	listed, err := listTools(fixtures)
	if err != nil {
		return nil, err
	}
	e.front, err = newFront(e.endpoint, fixtures, listed)
	return e, err
}

// listTools asks a server for its tools.
func listTools(server *mcp.Server) ([]*mcp.Tool, error) {
	ctx := context.Background()
	near, far := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, far, nil)
	if err != nil {
		return nil, fmt.Errorf("the fixtures: %w", err)
	}
	defer serving.Close() // nothing is lost with it
	session, err := mcp.NewClient(&mcp.Implementation{Name: "front", Version: "test"}, nil).Connect(ctx, near, nil)
	if err != nil {
		return nil, fmt.Errorf("the fixtures: %w", err)
	}
	defer session.Close() // nothing is lost with it
	result, err := session.ListTools(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("the tools of the fixtures: %w", err)
	}
	return result.Tools, nil
}

// changeTools is the work of a tool that changes the list of tools, as the watch would.
func (e *everything) changeTools(context.Context, *job) (*mcp.CallToolResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	transient := tool{name: "transient", description: "Comes and goes.", do: says("Here.")}.object()
	transient.CreationTimestamp = metav1.Now()
	if e.changed = !e.changed; e.changed {
		e.endpoint.Tools.Observe(transient)
	} else {
		e.endpoint.Tools.Forget(transient)
	}
	return text("The list has changed."), nil
}
