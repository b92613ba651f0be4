package endpoint

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that sends its body a byte at a time, or never, holds nothing for long, whether it is let in or not.
func TestSlowBodies(t *testing.T) {
	f := newFixture(t, nil)
	f.bodyTimeout = 50 * time.Millisecond
	host := strings.TrimSuffix(strings.TrimPrefix(f.alice.URL, "http://"), "/mcp/team")
	for name, tc := range map[string]struct {
		path, authorization string
		status              int
	}{
		"of a caller":   {"/mcp/team", "Bearer alice", http.StatusRequestTimeout},
		"of a stranger": {"/mcp/team", "Bearer unknown", http.StatusUnauthorized},
		"to nowhere":    {"/nowhere", "", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: 100\r\n\r\n{",
				tc.path, tc.authorization)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tc.status {
				t.Errorf("HTTP %d, want %d", response.StatusCode, tc.status)
			}
		})
	}
}

// The limit is for the body alone: an answer may take longer.
func TestALongAnswerOutlivesTheLimitOfTheBody(t *testing.T) {
	f := newFixture(t, nil)
	f.bodyTimeout = 50 * time.Millisecond
	f.offer("tool", waits(forbidden, 0, 4*f.bodyTimeout))
	if got := read(t, f.alice.Call(t, "tools/call", map[string]any{"name": "tool"})); !strings.Contains(got.Content[0].Text, "has not ended within 200ms") {
		t.Errorf("got %+v", got)
	}
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("the end of the limit was taken for the caller's leaving")
	}
}
