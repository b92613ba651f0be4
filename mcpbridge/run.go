package mcpbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mcptask/mcptask/mcpbridge/serve"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaderSize = 32 << 10
	// shutdownTimeout bounds how long requests under way may take to end.
	shutdownTimeout = 20 * time.Second
)

// insideLimits hold for the probes and the metrics, whose requests and answers are small.
var insideLimits = serve.Limits{Header: headerTimeout, Idle: idleTimeout, HeaderBytes: maxHeaderSize, Connections: 64}

// limits hold for MCP and for the Pods of tasks.
func (o *Options) limits() serve.Limits {
	return serve.Limits{Header: headerTimeout, Idle: idleTimeout, HeaderBytes: maxHeaderSize, Connections: o.MaxConnections}
}

// Listeners are what a bridge serves on.
type Listeners struct{ MCP, Runtime, Health, Metrics net.Listener }

// Listen opens the addresses of the options.
func (b *Bridge) Listen() (Listeners, error) {
	var l Listeners
	for _, open := range []struct {
		flag, address string
		listener      *net.Listener
	}{
		{"--bind-address", b.options.BindAddress, &l.MCP},
		{"--runtime-bind-address", b.options.RuntimeBindAddress, &l.Runtime},
		{"--health-bind-address", b.options.HealthBindAddress, &l.Health},
		{"--metrics-bind-address", b.options.MetricsBindAddress, &l.Metrics},
	} {
		listener, err := net.Listen("tcp", open.address)
		if err != nil {
			l.close()
			return Listeners{}, fmt.Errorf("%s: %w", open.flag, err)
		}
		*open.listener = listener
	}
	return l, nil
}

func (l Listeners) close() {
	for _, listener := range []net.Listener{l.MCP, l.Runtime, l.Health, l.Metrics} {
		if listener != nil {
			_ = listener.Close() // nothing was served on it
		}
	}
}

// Run serves until ctx ends, and then lets what is under way come to an end.
func (b *Bridge) Run(ctx context.Context, l Listeners) error {
	// The watch outlives ctx: it wakes the calls that still wait.
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	synced, err := b.watch(watching)
	if err != nil {
		l.close()
		return err
	}
	var certificate *serve.Certificate
	if folder := b.options.TLSFolder; folder != "" {
		if certificate, err = serve.ReadCertificate(folder); err != nil {
			l.close()
			return fmt.Errorf("--tls-folder: %w", err)
		}
	}
	var ready atomic.Bool
	limits := b.options.limits()
	mcp := serve.New(b.endpoint, limits, b.options.Log)
	pods := serve.New(b.runtime, limits, b.options.Log)
	health := inside(healthHandler(&ready), b.options.Log)
	metrics := inside(metricsHandler(b.registry), b.options.Log)
	open := newConnections(b.registry)

	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return b.cache.Start(watching) })
	group.Go(func() error { return serve.Serve(health, l.Health, insideLimits, nil, nil) })
	group.Go(func() error { return serve.Serve(metrics, l.Metrics, insideLimits, nil, nil) })
	if certificate != nil {
		group.Go(func() error { return certificate.Watch(failed) })
	}
	group.Go(func() error {
		if !toolscache.WaitForCacheSync(failed.Done(), synced...) {
			_ = errors.Join(l.MCP.Close(), l.Runtime.Close()) // nothing was served on them
			return nil
		}
		ready.Store(true)
		b.options.Log.Info("serving", "address", l.MCP.Addr().String(), "tls", certificate != nil, "runtime", l.Runtime.Addr().String())
		group.Go(func() error { return serve.Serve(pods, l.Runtime, limits, nil, open.WithLabelValues("runtime")) })
		return serve.Serve(mcp, l.MCP, limits, certificate, open.WithLabelValues("mcp"))
	})
	group.Go(func() error {
		<-failed.Done()
		ready.Store(false)
		b.options.Log.Info("shutting down")
		b.endpoint.Drain()
		b.runtime.Drain()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := errors.Join(mcp.Shutdown(ending), pods.Shutdown(ending), b.endpoint.Wait(ending), b.runtime.Wait(ending))
		stopWatching()
		return errors.Join(err, metrics.Close(), health.Close())
	})
	return group.Wait()
}

// inside is a server for the cluster's own programs, none of whose answers is a stream.
func inside(handler http.Handler, log *slog.Logger) *http.Server {
	server := serve.New(handler, insideLimits, log)
	server.ReadTimeout, server.WriteTimeout = headerTimeout, 3*headerTimeout
	return server
}

// newConnections is the gauge of open connections. One that stays at --max-connections says that clients wait.
func newConnections(registry prometheus.Registerer) *prometheus.GaugeVec {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "mcptask", Subsystem: "bridge",
		Name: "connections", Help: "Open connections, by port: mcp or runtime."}, []string{"port"})
	registry.MustRegister(open)
	return open
}

// healthHandler says that the process lives, and whether it should get requests: not before it knows the tools and tasks,
// and not once it is ending.
func healthHandler(ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "the caches are not synchronised, or the bridge is shutting down", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

// metricsHandler shows the metrics of the bridge, of its process and of its Kubernetes client.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	gatherers := prometheus.Gatherers{registry, ctrlmetrics.Registry} // the second has those of the Kubernetes client
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{}))
	return mux
}
