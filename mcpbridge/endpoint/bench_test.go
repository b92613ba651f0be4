package endpoint

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// The same over a connection of its own for each client, client included.
func BenchmarkHTTP(b *testing.B) {
	f, original, body := poll(b)
	for name, handler := range map[string]http.Handler{"constant": constant, "tasks_get": f.Endpoint} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(handler)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/mcp/team", bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					request.Header = original.Header.Clone()
					response, err := client.Do(request)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
						b.Errorf("HTTP %d, %v", response.StatusCode, err)
						return
					}
				}
			})
		})
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
