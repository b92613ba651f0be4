package socket

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/journal"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
)

// serve serves a task whose bridge is away, and returns the path of the socket.
func serve(t *testing.T, bodyWithin time.Duration) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "mcptask")
	if err != nil {
		t.Fatal(err)
	}
	store, state, err := journal.Open(filepath.Join(folder, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Task: task.New(store, state, nil, ""), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), bodyWithin: bodyWithin}
	path := filepath.Join(folder, "task.sock")
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, os.RemoveAll(folder)); err != nil {
			t.Error(err)
		}
	})
	return path
}

// The time for a body does not end a request that waits for the bridge.
func TestARequestMayWaitLongerThanItsBodyMayTake(t *testing.T) {
	path := serve(t, 20*time.Millisecond)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://task/v1/result", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		t.Fatalf("answered %d while the bridge was away", response.StatusCode)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestABodyThatDoesNotCome(t *testing.T) {
	path := serve(t, 20*time.Millisecond)
	connection, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "POST /v1/state HTTP/1.1\r\nHost: task\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%q %v", answer, err)
	}
}

// What somebody begins to send and does not end holds up nobody's request.
func TestHalfSentRequestsHoldUpNobody(t *testing.T) {
	path := serve(t, time.Minute)
	large := strings.Repeat(" ", 2*maxSmall)
	for i := range 300 {
		connection, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		request := []string{
			"POST /v1/state HTTP/1.1\r\nHost: task\r\nContent-Le",
			"POST /v1/state HTTP/1.1\r\nHost: task\r\nContent-Length: 10\r\n\r\n{",
			"POST /v1/result HTTP/1.1\r\nHost: task\r\nContent-Length: 100000\r\n\r\n" + large,
		}[i%3]
		if _, err := io.WriteString(connection, request); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://task/v1/state", strings.NewReader(`{"name":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("answered %d", response.StatusCode)
	}
}

func TestLargeBodiesWaitForEachOther(t *testing.T) {
	s := &Server{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), bodyWithin: 20 * time.Millisecond}
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	for range maxLarge {
		s.large <- struct{}{}
	}
	response, err := http.Post(server.URL+"/v1/result", "application/json", strings.NewReader(strings.Repeat(" ", 2*maxSmall)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	words, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(words), "the sidecar is busy") {
		t.Errorf("%d %s %v", response.StatusCode, words, err)
	}
}

func TestASocketReplacesTheOneBefore(t *testing.T) {
	path := serve(t, time.Second)
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connection, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := accepted.Close(); err != nil {
		t.Error(err)
	}
}
