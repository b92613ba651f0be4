package endpoint

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// sink is the cheapest http.ResponseWriter.
type sink struct {
	header http.Header
	status int
	n      int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(status int) {
	s.status = status
}
func (s *sink) Write(p []byte) (int, error) {
	s.n += len(p)
	return len(p), nil
}

// poll is a tasks/get for a task that is there.
func poll(b *testing.B) (*fixture, *http.Request, []byte) {
	f := newFixture(b, nil)
	f.offer("tool", nil)
	id := f.handle(b, "tool")
	f.cluster.change(b, id, completed(`{"content":[{"type":"text","text":"`+strings.Repeat("x", 1000)+`"}]}`))
	request, err := f.alice.Request(b.Context(), "tasks/get", map[string]any{"taskId": id})
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		b.Fatal(err)
	}
	return f, request, body
}

// constant is what a handler costs that does nothing but read its body and answer.
var constant = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
})

// The handlers alone, without a connection.
func BenchmarkHandler(b *testing.B) {
	f, request, body := poll(b)
	for name, handler := range map[string]http.Handler{"constant": constant, "tasks_get": f.Endpoint} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request := request.Clone(b.Context())
				request.Body = io.NopCloser(bytes.NewReader(body))
				w := &sink{header: http.Header{}}
				handler.ServeHTTP(w, request)
				if w.status >= 300 {
					b.Fatalf("HTTP %d", w.status)
				}
			}
		})
	}
}

// The same over a connection, as CPU time of client and server together. Batches of both are taken in turn; what is
// reported is their ratio, with its quartiles.
func BenchmarkPollBesideConstant(b *testing.B) {
	f, original, body := poll(b)
	get, idle := httptest.NewServer(f.Endpoint), httptest.NewServer(constant)
	defer get.Close()
	defer idle.Close()
	const batch = 200
	cpu := func(url string) float64 {
		before := cpuTime(b)
		for range batch {
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+"/mcp/team", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			request.Header = original.Header.Clone()
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
				b.Fatalf("HTTP %d, %v", response.StatusCode, err)
			}
		}
		return float64(cpuTime(b)-before) / batch
	}
	var gets, idles, ratios []float64
	for b.Loop() {
		one, other := cpu(get.URL), cpu(idle.URL)
		gets, idles, ratios = append(gets, one), append(idles, other), append(ratios, one/other)
	}
	for _, values := range [][]float64{gets, idles, ratios} {
		slices.Sort(values)
	}
	n := len(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(gets[n/2]/1000, "µs-CPU/get")
	b.ReportMetric(idles[n/2]/1000, "µs-CPU/constant")
	b.ReportMetric(ratios[n/2], "ratio")
	b.ReportMetric(ratios[n/4], "ratio-p25")
	b.ReportMetric(ratios[3*n/4], "ratio-p75")
}

// cpuTime is what the process has used, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// A call that is answered with a task, over a connection, with a cluster that takes no time.
func BenchmarkToolsCall(b *testing.B) {
	f := newFixture(b, nil)
	f.offer("tool", nil)
	request, err := f.alice.Request(b.Context(), "tools/call", map[string]any{"name": "tool"})
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		again := request.Clone(b.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		response, err := http.DefaultClient.Do(again)
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		if response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			b.Fatalf("HTTP %d, %v", response.StatusCode, err)
		}
	}
}

// A call that goes through the SDK, for comparison.
func BenchmarkToolsList(b *testing.B) {
	f := newFixture(b, nil)
	f.offer("tool", nil)
	b.ReportAllocs()
	for b.Loop() {
		if response := f.alice.Call(b, "tools/list", nil); response.Error != nil {
			b.Fatal(response.Raw)
		}
	}
}
