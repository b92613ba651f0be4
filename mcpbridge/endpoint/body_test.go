package endpoint

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// What one caller sends slowly takes a part of the memory that is set aside for large bodies, and no more.
func TestSlowLargeBodiesOfOneCallerLeaveRoomForOthers(t *testing.T) {
	f := newFixture(t, nil)
	host := strings.TrimSuffix(strings.TrimPrefix(f.alice.URL, "http://"), "/mcp/team")
	const slow = 3 * maxBodiesOfCaller >> 20
	var connections []net.Conn
	for range slow {
		connection, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		connections = append(connections, connection)
		head := "POST /mcp/team HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
		if _, err = fmt.Fprintf(connection, "%sContent-Length: %d\r\n\r\n%s", head, 1<<20, strings.Repeat(" ", 2*smallBody)); err != nil {
			t.Fatal(err)
		}
	}
	alice := caller{"team", v1alpha1.Identity{Issuer: "test", Subject: "alice"}}
	eventually(t, "all of them arrive", func() bool { return f.bodies.Users(alice) == slow })
	bob := f.alice
	bob.Token = "bob"
	large := mcptest.Body(strings.Repeat(" ", 300<<10) + `{"jsonrpc":"2.0","id":1,"method":"none","params":{}}`)
	if r := bob.Call(t, "none", nil, large); r.Error == nil || r.Status == http.StatusServiceUnavailable {
		t.Errorf("another caller's large body is answered with %s", r.Raw)
	}
	for _, connection := range connections {
		_ = connection.Close()
	}
	eventually(t, "their room is free again", func() bool { return f.bodies.Users(alice) == 0 })
}

// A client that sends all of a body before it reads would see a broken connection where it is not read.
func TestWhoSendsTooMuchReadsWhy(t *testing.T) {
	f := newFixture(t, nil)
	for token, want := range map[string]struct {
		status int
		words  string
	}{"alice": {http.StatusRequestEntityTooLarge, "larger"}, "unknown": {http.StatusUnauthorized, ""}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.alice.URL, strings.NewReader(strings.Repeat(" ", 4<<20)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != want.status || !strings.Contains(string(said), want.words) {
			t.Errorf("HTTP %d, %s, %v", response.StatusCode, said, err)
		}
	}
}

// A wait may last for days, and what was sent with the request stays as long.
func TestALargeBodyCountsUntilItIsAnswered(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	id := asTask(t, s, "tool")
	alice := caller{"team", v1alpha1.Identity{Issuer: "test", Subject: "alice"}}
	stream := s.Open(t, "tasks/result", map[string]any{"taskId": id, "arguments": strings.Repeat("x", 2*smallBody)})
	eventually(t, "the request waits", func() bool { return f.bodies.Users(alice) == 1 && len(f.slots) == 1 })
	stream.Leave()
	eventually(t, "its room is free again", func() bool { return f.bodies.Users(alice) == 0 })
}
