package mcpbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaderSize = 32 << 10
	// shutdownTimeout bounds how long requests under way may take to end.
	shutdownTimeout = 20 * time.Second
)

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
	var ready atomic.Bool
	mcp := newServer(b.endpoint)
	pods := newServer(b.runtime)
	health := newServer(healthHandler(&ready))
	metrics := newServer(metricsHandler(b.registry))

	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return b.cache.Start(watching) })
	group.Go(func() error { return serve(health, l.Health) })
	group.Go(func() error { return serve(metrics, l.Metrics) })
	group.Go(func() error {
		if !toolscache.WaitForCacheSync(failed.Done(), synced...) {
			_ = errors.Join(l.MCP.Close(), l.Runtime.Close()) // nothing was served on them
			return nil
		}
		ready.Store(true)
		b.options.Log.Info("serving", "address", l.MCP.Addr().String(), "runtime", l.Runtime.Addr().String())
		group.Go(func() error { return serve(pods, l.Runtime) })
		return serve(mcp, l.MCP)
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

func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderSize}
}

func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
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
