package endpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// small is what the kernel buffers of a connection, so that a client that does not read is felt soon.
const small = 8 << 10

// narrow serves through connections with small buffers.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	connection, err := n.Listener.Accept()
	if err == nil {
		err = connection.(*net.TCPConn).SetWriteBuffer(small)
	}
	return connection, err
}

// narrowServer is a second server of the endpoint.
func (f *fixture) narrowServer(t *testing.T) *httptest.Server {
	server := httptest.NewUnstartedServer(f.Endpoint)
	server.Listener = narrow{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// deafClient opens a stream and reads nothing of it.
func (f *fixture) deafClient(t *testing.T, server *httptest.Server, ids ...string) net.Conn {
	t.Helper()
	request, err := f.alice.Request(t.Context(), "subscriptions/listen", taskIDs(ids...))
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.(*net.TCPConn).SetReadBuffer(small); err != nil {
		t.Fatal(err)
	}
	if err := request.Write(connection); err != nil {
		t.Fatal(err)
	}
	return connection
}

// gate is a client's end that a test shuts and opens.
type gate struct {
	header http.Header

	mu       sync.Mutex
	written  strings.Builder
	shut     chan struct{} // closed when the gate is opened; nil while it is open
	waiting  bool
	deadline chan struct{} // closed when the last deadline has passed
	timer    *time.Timer
}

func newGate() *gate { return &gate{header: http.Header{}} }

func (g *gate) Header() http.Header { return g.header }
func (g *gate) WriteHeader(int)     {}
func (g *gate) Flush()              {}

func (g *gate) SetReadDeadline(time.Time) error { return nil }

func (g *gate) SetWriteDeadline(at time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil && !g.timer.Stop() {
		return nil // it has passed
	}
	if g.deadline == nil {
		g.deadline = make(chan struct{})
	}
	passed := g.deadline
	g.timer = time.AfterFunc(time.Until(at), func() { close(passed) })
	return nil
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	for g.shut != nil {
		g.waiting = true
		opened, passed := g.shut, g.deadline
		g.mu.Unlock()
		select {
		case <-opened:
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	return g.written.Write(p)
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.waiting = make(chan struct{}), false
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *gate) isWaiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func (g *gate) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.written.String()
}

// listen opens a stream that is written to the gate. ended returns once the stream has.
func (f *fixture) listen(t *testing.T, g *gate, ids ...string) (ended func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	request, err := f.alice.Request(ctx, "subscriptions/listen", taskIDs(ids...))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Endpoint.ServeHTTP(g, request)
	}()
	ended = func() {
		t.Helper()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("the stream does not end")
		}
	}
	t.Cleanup(func() { leave(); ended() })
	return ended
}

func TestASlowReaderGetsTheNewestState(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	one, two := f.handle(t, "tool"), f.handle(t, "tool")
	g := newGate()
	f.listen(t, g, one, two)
	eventually(t, "the present states are told", func() bool { return strings.Count(g.text(), `"notifications/tasks"`) == 2 })
	g.close()
	f.cluster.change(t, one, working("change"))
	eventually(t, "the writer waits for the client", g.isWaiting)
	for i := range 1000 {
		f.cluster.change(t, one, working("change "+strconv.Itoa(i)))
		f.cluster.change(t, two, working("change "+strconv.Itoa(i)))
	}
	f.cluster.change(t, one, completed(`{}`))
	g.open()
	eventually(t, "the newest states are told", func() bool {
		return strings.Contains(g.text(), `"status":"completed"`) && strings.Contains(g.text(), `"change 999"`)
	})
	// The one that was being written, and the last of each task.
	if n := strings.Count(g.text(), `"notifications/tasks"`); n != 2+1+2 {
		t.Errorf("%d notifications were sent: %s", n, g.text())
	}
}

func TestASlowReaderHoldsNobodyUp(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxStreamsPerCaller = 300 })
	f.offer("tool", nil)
	id, large := f.handle(t, "tool"), f.handle(t, "tool")
	const readers = 200
	streams := make([]*mcptest.Stream, readers)
	for i := range streams {
		streams[i] = f.alice.Open(t, "subscriptions/listen", taskIDs(id))
	}
	eventually(t, "all streams are open", func() bool { return f.metric(t, "streams") == readers })
	// One more, of a client that does not read what is more than its connection can hold.
	f.cluster.change(t, large, completed(`{"content":[{"type":"text","text":"`+strings.Repeat("x", 64*small)+`"}]}`))
	f.subscriptions.rhythm.write = 200 * time.Millisecond
	f.deafClient(t, f.narrowServer(t), large, id)
	eventually(t, "its stream is open too", func() bool { return f.metric(t, "streams") == readers+1 })
	for i := range 20 {
		f.cluster.change(t, id, working(strconv.Itoa(i)))
	}
	f.cluster.change(t, id, completed(`{}`))
	for _, s := range streams {
		for !strings.Contains(string(s.Next(patience).Params), `"status":"completed"`) {
		}
	}
	eventually(t, "the one that does not read is cut, and no other", func() bool {
		return f.metric(t, "streams") == readers && f.metric(t, "streams_cut_total") == 1
	})
	f.cluster.change(t, id, working("still there"))
	for _, s := range streams {
		if message := s.Next(patience); !strings.Contains(string(message.Params), "still there") {
			t.Fatalf("got %s", message.Params)
		}
	}
}

// A client that does not read delays the end of the bridge a little, and not by the time that it is given else.
func TestASlowReaderDoesNotKeepTheBridge(t *testing.T) {
	f := newFixture(t, nil)
	f.subscriptions.rhythm.write, f.subscriptions.rhythm.hurry = time.Hour, 20*time.Millisecond
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	g := newGate()
	ended := f.listen(t, g, id)
	eventually(t, "the present state is told", func() bool { return strings.Contains(g.text(), `"notifications/tasks"`) })
	g.close()
	f.cluster.change(t, id, working("change"))
	eventually(t, "the writer waits for the client", g.isWaiting)
	f.Drain()
	ended()
	if f.metric(t, "streams_cut_total") != 1 {
		t.Error("it is not counted")
	}
}

// The place of a stream is free again when its client is gone without a word, and when it was refused.
func TestStreamsLeaveNothingBehind(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	connection := f.deafClient(t, f.narrowServer(t), id)
	if _, err := io.ReadFull(connection, make([]byte, len("HTTP/1.1 200 OK"))); err != nil {
		t.Fatal(err)
	}
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() bool {
		f.subscriptions.mu.Lock()
		defer f.subscriptions.mu.Unlock()
		return len(f.subscriptions.open) == 0 && len(f.subscriptions.callers) == 0
	})
	f.cluster.mu.Lock()
	f.cluster.tasks = nil
	f.cluster.mu.Unlock()
	outage := f.alice
	outage.Token = "outage"
	if response := outage.Call(t, "subscriptions/listen", taskIDs(id)); response.Status != http.StatusServiceUnavailable {
		t.Errorf("got HTTP %d", response.Status)
	}
}
