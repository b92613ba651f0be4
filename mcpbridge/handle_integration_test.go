//go:build integration

package mcpbridge_test

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/limits"
)

// creations measures the creations of tasks on their way to the API server and back.
type creations struct {
	mu    sync.Mutex
	times []time.Duration
}

func (c *creations) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/mcptasks") {
			return next.RoundTrip(r)
		}
		began := time.Now()
		response, err := next.RoundTrip(r)
		c.mu.Lock()
		c.times = append(c.times, time.Since(began))
		c.mu.Unlock()
		return response, err
	})
}

// From tools/call to the handle, beside a raw create of the same task by a client of its own, the two in turn. Nothing else works on
// the tasks. What the API server takes for the bridge's own creation is shown too: the rest is the bridge's.
func BenchmarkHandleBesideRawCreate(b *testing.B) {
	namespace := newNamespace(b)
	inside := &creations{}
	before := cfg
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(inside.wrap)
	r := startBridge(b, func(o *mcpbridge.Options) {
		o.Limits = limits.Limits{StoredTasksPerNamespace: 1e6, StoredTasksPerCaller: 1e6, RunningTasksPerCaller: 1e6, CallsPerMinute: 1e6, PollsPerSecond: 1e6}
		o.Log = slog.New(slog.DiscardHandler)
	})
	cfg = before
	newTool(b, namespace, "tool", nil)
	agent := agent(r, namespace)
	offered(b, agent, "tool")
	params := map[string]any{"name": "tool", "arguments": map[string]any{"url": "x"}}
	// A connection for each: what is measured is not the making of one.
	send := func() time.Duration {
		request, err := agent.Request(b.Context(), "tools/call", params)
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		took := time.Since(began)
		if response.Body.Close(); err != nil || !strings.Contains(string(body), `"resultType":"task"`) {
			b.Fatalf("%v: HTTP %d with %s", err, response.StatusCode, body)
		}
		return took
	}
	send()
	var list v1alpha1.McpTaskList
	if err := k8s.List(b.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) == 0 {
		b.Fatal(err, len(list.Items))
	}
	spec := list.Items[0].Spec
	labels := list.Items[0].Labels
	var handles, raws []time.Duration
	for b.Loop() {
		handles = append(handles, send())
		task := &v1alpha1.McpTask{Spec: *spec.DeepCopy()}
		task.Namespace, task.Name, task.Labels = namespace, v1alpha1.NewTaskID(), labels
		began := time.Now()
		if err := k8s.Create(b.Context(), task); err != nil {
			b.Fatal(err)
		}
		raws = append(raws, time.Since(began))
	}
	median := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)/2].Microseconds()) / 1000
	}
	handle, raw := median(handles), median(raws)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(handle, "ms/handle")
	b.ReportMetric(raw, "ms/raw-create")
	b.ReportMetric(median(inside.times), "ms/create-inside")
	b.ReportMetric(handle/raw, "ratio")
}
