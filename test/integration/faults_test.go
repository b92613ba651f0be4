//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers"
)

// faults are what goes wrong with a controller. The zero value is a controller that nothing happens to.
type faults struct {
	// killAt is the number of the write at which it is killed, from 1 on; 0 is never. Only writes of this kind are counted, unless it is "".
	killAt int
	kind   string
	// applied says that this write is still done, and only its answer not seen.
	applied bool
	// lag is how long the cache is behind, by resource (mcptasks, jobs, pods).
	lag map[string]time.Duration
}

// errKilled is what a killed controller would see of its writes if it still lived.
var errKilled = errors.New("the controller was killed")

// operator is one controller process: its own cache, its own client, its own end.
type operator struct {
	cancel context.CancelFunc
	ended  chan error

	faults faults
	mu     sync.Mutex
	writes []string
	dead   bool
	killed chan struct{}
}

// startOperator runs a controller for one namespace until it is killed or stopped, or the test ends.
func startOperator(t *testing.T, namespace string, f faults) *operator {
	t.Helper()
	o, err := newOperator(namespace, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.stop)
	return o
}

func newOperator(namespace string, f faults) (*operator, error) {
	o := &operator{faults: f, ended: make(chan error, 1), killed: make(chan struct{})}
	options := controllers.CacheOptions()
	options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	unique := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Cache: options, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &unique},
		NewCache: func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			config = rest.CopyConfig(config)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &laggingTransport{next, f.lag} })
			options.HTTPClient = nil
			return cache.New(config, options)
		},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, o.funcs()), nil
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	if err := controllers.Setup(ctx, mgr, testRuntime, time.Now); err != nil {
		cancel()
		return nil, err
	}
	go func() { o.ended <- mgr.Start(ctx) }()
	return o, nil
}

// stop ends the controller; it may be called again.
func (o *operator) stop() {
	o.mu.Lock()
	o.dead = true
	o.mu.Unlock()
	o.cancel()
	o.ended <- <-o.ended
}

// written are the writes so far.
func (o *operator) written() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.writes...)
}

// write counts a write and lets it through, or not.
func (o *operator) write(what string, do func() error) error {
	o.mu.Lock()
	if o.dead {
		o.mu.Unlock()
		return errKilled
	}
	o.writes = append(o.writes, what)
	counts := o.faults.kind == "" || what == o.faults.kind
	kill := counts && times(o.writes, o.faults.kind) == o.faults.killAt
	o.dead = kill
	o.mu.Unlock()
	if !kill {
		return do()
	}
	if o.faults.applied {
		_ = do() // nobody sees the answer
	}
	o.cancel()
	close(o.killed)
	return errKilled
}

// times is how many of the writes are of that kind; "" is any.
func times(writes []string, kind string) (n int) {
	for _, write := range writes {
		if kind == "" || write == kind {
			n++
		}
	}
	return n
}

// funcs intercepts the writes about tasks. A dry run is none, and tools have their own reconciler.
func (o *operator) funcs() interceptor.Funcs {
	name := func(verb string, obj client.Object) string {
		return fmt.Sprintf("%s %s", verb, strings.TrimPrefix(fmt.Sprintf("%T", obj), "*"))
	}
	isTool := func(obj client.Object) bool { _, ok := obj.(*v1alpha1.McpTool); return ok }
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			var options client.CreateOptions
			if options.ApplyOptions(opts); len(options.DryRun) > 0 {
				return c.Create(ctx, obj, opts...)
			}
			return o.write(name("create", obj), func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return o.write(name("delete", obj), func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return o.write(name("patch", obj), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if isTool(obj) {
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			}
			return o.write(name("patch "+sub, obj), func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	}
}

// laggingTransport delays what a watch says, each resource by its own time: the cache is then behind, and not in step.
type laggingTransport struct {
	next http.RoundTripper
	lag  map[string]time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l *laggingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || request.URL.Query().Get("watch") == "" {
		return response, err
	}
	if lag := l.lag[request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]]; lag > 0 {
		response.Body = newLagging(response.Body, lag)
	}
	return response, nil
}

// lagging is a stream whose bytes arrive later.
type lagging struct {
	io.ReadCloser
	*io.PipeReader
}

type late struct {
	bytes []byte
	at    time.Time
	err   error
}

func newLagging(body io.ReadCloser, lag time.Duration) *lagging {
	reader, writer := io.Pipe()
	queue := make(chan late, 4096)
	go func() {
		defer close(queue)
		for {
			buffer := make([]byte, 32<<10)
			n, err := body.Read(buffer)
			queue <- late{buffer[:n], time.Now().Add(lag), err}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for item := range queue {
			time.Sleep(time.Until(item.at))
			_, _ = writer.Write(item.bytes)
			if item.err != nil {
				_ = writer.CloseWithError(item.err)
			}
		}
	}()
	return &lagging{ReadCloser: body, PipeReader: reader}
}

// Read implements io.Reader.
func (l *lagging) Read(p []byte) (int, error) { return l.PipeReader.Read(p) }

// Close implements io.Closer.
func (l *lagging) Close() error {
	_ = l.PipeReader.Close()
	return l.ReadCloser.Close()
}
