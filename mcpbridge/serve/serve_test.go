package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const patience = 20 * time.Second

var short = Limits{Header: 100 * time.Millisecond, Idle: 100 * time.Millisecond, HeaderBytes: 4 << 10, Connections: 2}

type running struct {
	address string
	metrics *prometheus.Registry
}

// open is how many connections are open, by the gauge.
func (r *running) open(t *testing.T) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// start serves "ok" until the test ends.
func start(t *testing.T, limits Limits, certificate *Certificate) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{address: listener.Addr().String(), metrics: prometheus.NewRegistry()}
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "open"})
	r.metrics.MustRegister(open)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := New(handler, limits, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- Serve(server, listener, limits, certificate, open) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Who sends headers a little at a time, or nothing at all, is cut off, and so is who stays connected for nothing.
func TestSlowClientsAreCutOff(t *testing.T) {
	r := start(t, short, nil)
	for name, sends := range map[string]string{
		"nothing":             "",
		"half a line":         "GET / HT",
		"headers and no end":  "GET / HTTP/1.1\r\nHost: x\r\nX-One: 1\r\n",
		"a request and waits": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, r.address)
			if _, err := io.WriteString(c, sends); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(c) // returns when the server closes
			if err != nil {
				t.Fatalf("still connected after %s: %v", patience, err)
			}
			if whole := strings.HasSuffix(sends, "\r\n\r\n"); whole != strings.Contains(string(answer), "200 OK") {
				t.Errorf("answered %q", answer)
			}
		})
	}
}

func TestWhatIsNotHTTPIsRefusedInFewWords(t *testing.T) {
	r := start(t, short, nil)
	for name, tc := range map[string]struct{ sends, status string }{
		"headers that are too large": {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", "431"},
		"a line that is none":        {"\x16\x03\x01\x00\r\n\r\n", "400"},
		"two hosts":                  {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		"no host":                    {"GET / HTTP/1.1\r\n\r\n", "400"},
		"a host of other signs":      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
		"two lengths":                {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
		"a length and a coding":      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\n", "501"},
		"a header with a newline":    {"GET / HTTP/1.1\r\nHost: x\r\nA\x00: 1\r\n\r\n", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, r.address)
			if _, err := io.WriteString(c, tc.sends); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if !strings.HasPrefix(response.Status, tc.status) || len(body) > 100 {
				t.Errorf("HTTP %s with %q", response.Status, body)
			}
		})
	}
}

func TestFurtherConnectionsWaitUntilOneEnds(t *testing.T) {
	limits := short
	limits.Header, limits.Idle = patience, patience
	r := start(t, limits, nil)
	first, second := dial(t, r.address), dial(t, r.address)
	for _, c := range []net.Conn{first, second} {
		ask(t, c)
	}
	if n := r.open(t); n != 2 {
		t.Errorf("the gauge says %v", n)
	}
	third := dial(t, r.address)
	if _, err := io.WriteString(third, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := third.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a third connection is served: %v", err)
	}
	if err := errors.Join(first.Close(), third.SetReadDeadline(time.Now().Add(patience))); err != nil {
		t.Fatal(err)
	}
	readOK(t, third)
}

func ask(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	readOK(t, c)
}

func readOK(t *testing.T, c net.Conn) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok" {
		t.Fatalf("%q, %v", body, err)
	}
}
