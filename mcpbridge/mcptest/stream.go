package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Stream is an answer whose events a test reads one at a time.
type Stream struct {
	Header http.Header

	t      testing.TB
	events chan event
	leave  context.CancelFunc
}

type event struct {
	data string
	err  error
}

// Open sends a request that is answered with a stream, which ends with the test at the latest.
func (c Client) Open(t testing.TB, method string, params map[string]any, edits ...func(*http.Request)) *Stream {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	request, err := c.Request(ctx, method, params)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(request)
	}
	return c.open(ctx, leave, t, request)
}

func (s *Stream) read(ctx context.Context, body io.Reader) {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		data, isData := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		e := event{data, err}
		switch {
		case err != nil:
		case strings.HasPrefix(line, ":"):
			e.data = ":"
		case !isData:
			continue
		}
		select {
		case s.events <- e:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// Leave closes the stream, as a client does that wants to hear no more.
func (s *Stream) Leave() { s.leave() }

// Next is the next message; comments are passed over.
func (s *Stream) Next(within time.Duration) Message {
	s.t.Helper()
	for {
		if message, comment := s.NextOrComment(within); !comment {
			return message
		}
	}
}

// NextOrComment is the next message, or true when a comment comes first: since the last message the stream was silent.
func (s *Stream) NextOrComment(within time.Duration) (message Message, comment bool) {
	s.t.Helper()
	e := s.take(within)
	if e.err != nil {
		s.t.Fatalf("the stream ended: %v", e.err)
	}
	if e.data == ":" {
		return Message{}, true
	}
	if err := json.Unmarshal([]byte(e.data), &message); err != nil {
		s.t.Fatalf("event %q: %v", e.data, err)
	}
	return message, false
}

// Comment waits for a comment, and fails when a message comes instead.
func (s *Stream) Comment(within time.Duration) {
	s.t.Helper()
	if message, comment := s.NextOrComment(within); !comment {
		s.t.Fatalf("no comment but %+v", message)
	}
}

// End waits for the end of the stream, and fails when a message comes instead.
func (s *Stream) End(within time.Duration) {
	s.t.Helper()
	for {
		e := s.take(within)
		switch {
		case errors.Is(e.err, io.EOF):
			return
		case e.err != nil || e.data != ":":
			s.t.Fatalf("no end but %q, %v", e.data, e.err)
		}
	}
}

func (s *Stream) take(within time.Duration) event {
	s.t.Helper()
	select {
	case e := <-s.events:
		return e
	case <-time.After(within):
		s.t.Fatalf("nothing came within %s", within)
		return event{}
	}
}
