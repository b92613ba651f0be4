//go:build integration

package mcpbridge_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/limits"
)

var (
	// cfg reaches the API server as a cluster administrator.
	cfg *rest.Config
	// k8s is a client without a cache.
	k8s client.Client
	// keysFolder holds the keys that the bridges of all tests share.
	keysFolder string
)

// patience is how long a condition may take that should come about at once.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpbridge:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctrllog.SetLogger(klog.Background())
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return 0, err
	}
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute} // on a busy machine
	if os.Getenv("USE_EXISTING_CLUSTER") != "true" {                       // an existing one has its definitions already
		env.CRDDirectoryPaths, env.ErrorIfCRDPathMissing = []string{"../config/crd"}, true
	}
	// Service accounts need the admission plugin that envtest switches off.
	env.ControlPlane.GetAPIServer().Configure().Set("disable-admission-plugins", "")
	if cfg, err = env.Start(); err != nil {
		return 0, fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	if k8s, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	if keysFolder, err = os.MkdirTemp("", "mcptask-keys-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(keysFolder)) }()
	if err := os.WriteFile(filepath.Join(keysFolder, "1"), []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// newNamespace makes a namespace for one test.
func newNamespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bridge-test-"}}
	if err := k8s.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// Without a namespace controller the namespace stays; what the test made must not.
		err := errors.Join(
			k8s.DeleteAllOf(ctx, &v1alpha1.McpTask{}, client.InNamespace(namespace.Name)),
			k8s.DeleteAllOf(ctx, &v1alpha1.McpTool{}, client.InNamespace(namespace.Name)),
			k8s.Delete(ctx, namespace))
		if err != nil {
			t.Errorf("cleaning up %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}

// replica is a bridge that runs.
type replica struct {
	url, runtime, health, metrics string
	// stop asks the bridge to end, as SIGTERM does; stopped returns its error once it has.
	stop    func()
	stopped func() error
	// requests are those that the bridge sent to the API server, watches and leases of connections left out.
	requests *counter
}

// startBridge runs a bridge against the API server until the test ends.
func startBridge(t testing.TB, change func(*mcpbridge.Options)) *replica {
	t.Helper()
	r := &replica{requests: &counter{}}
	config := rest.CopyConfig(cfg)
	config.Wrap(r.requests.count)
	options := mcpbridge.Options{
		BindAddress: "127.0.0.1:0", RuntimeBindAddress: "127.0.0.1:0", HealthBindAddress: "127.0.0.1:0", MetricsBindAddress: "127.0.0.1:0",
		AllowAnonymous: true, Authorization: mcpbridge.AuthorizationNone, MaxBodyBytes: 1 << 20, MaxWaitingCalls: 100, MaxStreamsPerCaller: 10, MaxStreams: 100, MaxConnections: 1000, KeysFolder: keysFolder, Version: "test", Limits: limits.Default(),
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&options)
	}
	bridge, err := mcpbridge.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := bridge.Listen()
	if err != nil {
		t.Fatal(err)
	}
	address := func(l net.Listener) string { return "http://" + l.Addr().String() }
	r.url, r.runtime, r.health, r.metrics = address(listeners.MCP), address(listeners.Runtime), address(listeners.Health), address(listeners.Metrics)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- bridge.Run(ctx, listeners) }()
	r.stop = cancel
	r.stopped = sync.OnceValue(func() error {
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return errors.New("the bridge does not end")
		}
	})
	t.Cleanup(func() {
		cancel()
		if err := r.stopped(); err != nil {
			t.Error("the bridge ended with", err)
		}
	})
	eventually(t, "the bridge is ready", func() bool {
		response, err := http.Get(r.health + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return r
}

// counter remembers the requests to the API server.
type counter struct {
	mu   sync.Mutex
	seen []string
}

func (c *counter) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.RawQuery, "watch=") {
			c.mu.Lock()
			c.seen = append(c.seen, r.Method+" "+r.URL.Path)
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// since returns what was requested after the first n.
func (c *counter) since(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen[n:]...)
}

func (c *counter) len() int { return len(c.since(0)) }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
