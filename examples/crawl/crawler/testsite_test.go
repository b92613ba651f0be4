package crawler

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/urlnorm"
)

// pages is a test site: a path and what it answers. A string is an HTML page, an int a status, a func itself.
type pages map[string]any

// testSite is a server that counts the requests for each path.
type testSite struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func serve(t *testing.T, site pages) *testSite {
	t.Helper()
	s := &testSite{asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.RequestURI()]++
		s.mu.Unlock()
		switch page := site[r.URL.RequestURI()].(type) {
		case string:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, page)
		case int:
			w.WriteHeader(page)
		case func(http.ResponseWriter, *http.Request):
			page(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func to(location string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}
}

func plain(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, text)
	}
}

func config(t *testing.T, start string) Config {
	t.Helper()
	u, err := urlnorm.ParseStart(start)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Start: u, Depth: 20, MaxPages: 1000, Timeout: 10 * time.Second, Concurrency: 4, UserAgent: "mcptask-crawl/1.0",
	}
}

func crawlSite(t *testing.T, cfg Config) *Result {
	t.Helper()
	result, err := Crawl(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// broken shows broken links as "path: status or error < referring paths".
func broken(s *testSite, r *Result) []string {
	var lines []string
	for _, b := range r.Broken {
		what := b.Error
		if b.Status != 0 {
			what = fmt.Sprint(b.Status)
		}
		if b.RedirectedTo != "" {
			what += " at " + b.RedirectedTo
		}
		lines = append(lines, strings.ReplaceAll(fmt.Sprintf("%s: %s < %s", b.URL, what, strings.Join(b.Referrers, " ")), s.URL, ""))
	}
	return lines
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}
