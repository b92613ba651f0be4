//go:build e2e

package clients

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// impatient is a proxy that closes a connection on which nothing has passed for a while, as load balancers do. It returns
// the URL with its own address.
func impatient(t *testing.T, target string, longest time.Duration) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	address := to.Host
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				_ = near.Close()
				return
			}
			open.Go(func() { pass(near, far, longest) })
		}
	})
	to.Host = listener.Addr().String()
	return to.String()
}

// pass passes on what comes from either side until one of them leaves or both are silent for too long.
func pass(near, far net.Conn, longest time.Duration) {
	end := sync.OnceFunc(func() {
		_ = near.Close()
		_ = far.Close()
	})
	silent := time.AfterFunc(longest, end)
	defer silent.Stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			defer end()
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				if n > 0 {
					silent.Reset(longest)
					if _, err := way[1].Write(buffer[:n]); err != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// What waits for half a minute outlives a proxy that cuts connections after twenty seconds of silence. The one slow test.
func TestSilence(t *testing.T) {
	s := newSite(t, "compute", "unhurried")
	proxied := impatient(t, s.url, 20*time.Second)
	work := input{"seconds": 30, "label": "silently"}
	made := extLegacy.run(t, s.url, "start", input{"tool": "compute", "arguments": work})

	idle := dial(t, proxied)
	waiting := map[string]*script{
		"tasks/result of " + sdkLegacy.name: sdkLegacy.start(t, proxied, "result", input{"taskId": made.TaskID}),
	}
	for _, c := range callersWithoutTasks {
		waiting["a call of "+c.name] = c.start(t, proxied, c.script, input{"tool": "compute", "arguments": work})
	}
	for _, c := range []shipped{extModern, extLegacy} {
		waiting["a stream of "+c.name] = c.start(t, proxied, "listen", input{"tool": "unhurried", "arguments": work})
	}
	for what, client := range waiting {
		saw := client.end()
		if saw.Error != nil || saw.ClosedByServer != "" || !strings.Contains(saw.Result.text(), "silently in 30 s") {
			t.Errorf("%s: got %+v", what, saw)
		}
	}
	_ = idle.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the proxy has not cut a connection without traffic: %v", err)
	}
}

// dial opens a connection, on which nothing is said.
func dial(t *testing.T, target string) net.Conn {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
