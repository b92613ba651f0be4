package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// heartbeat is how often a waiting stream shows that it lives. Proxies cut connections that are silent for a minute or less.
const heartbeat = 15 * time.Second

// stream is what the SDK writes an answer to. The SDK writes one whole message at a time; between them the stream
// writes heartbeats.
type stream struct {
	e       *Endpoint
	x       *exchange
	events  bool // server-sent events rather than one JSON object
	id      []byte
	restore []byte // the id to put in the place of id, nil when they are the same

	mu       sync.Mutex
	header   http.Header
	started  bool // the status line is written
	asEvent  bool // what follows is a bare message that belongs into an event
	settled  bool // the answer was made here, so it is in the client's words
	closed   bool
	stopBeat chan struct{}
	beating  sync.WaitGroup
}

func newStream(e *Endpoint, x *exchange, events bool, id json.RawMessage) *stream {
	s := &stream{e: e, x: x, events: events, id: id, header: x.w.Header(), stopBeat: make(chan struct{})}
	if !bytes.Equal(id, x.request.ID) {
		s.restore = x.request.ID
	}
	if events {
		s.header.Set("X-Accel-Buffering", "no")
	}
	return s
}

// settle says that the answer that follows was made by the bridge.
func (s *stream) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
}

// begun says whether anything was sent.
func (s *stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// begin sends the head of an event stream and keeps it alive until the answer.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.closed || !s.events {
		return
	}
	s.writeHeader(http.StatusOK)
	_, _ = s.write([]byte(": waiting\n\n")) // should the client have left, its context says so
	s.beating.Go(func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-s.stopBeat:
				return
			case <-ticker.C:
				s.mu.Lock()
				if !s.closed {
					_, _ = s.write([]byte(": waiting\n\n"))
				}
				s.mu.Unlock()
			}
		}
	})
}

// close ends the stream: the SDK's goroutines can write no more once the request is over.
func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.stopBeat)
	s.beating.Wait()
}

// Header implements http.ResponseWriter.
func (s *stream) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter. An error status that comes after the stream began becomes an event.
func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case s.started:
		s.asEvent = true
	default:
		s.writeHeader(status)
	}
}

var errClosed = errors.New("the request is over")

// Write implements http.ResponseWriter.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	message := p
	if !s.settled && bytes.Contains(p, []byte(`"error"`)) {
		message = s.plain(message)
	}
	if s.restore != nil {
		message = bytes.ReplaceAll(message, s.id, s.restore)
	}
	if s.asEvent {
		message = fmt.Appendf(nil, "event: message\ndata: %s\n\n", message)
	}
	if !s.started {
		s.writeHeader(http.StatusOK)
	}
	if _, err := s.write(message); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *stream) writeHeader(status int) {
	s.started = true
	if s.events && status == http.StatusOK {
		s.header.Set("Content-Type", "text/event-stream")
		s.header.Set("Cache-Control", "no-cache, no-transform")
	}
	s.x.w.WriteHeader(status)
}

func (s *stream) write(p []byte) (int, error) {
	limitWrite(s.x.w)
	n, err := s.x.w.Write(p)
	if err == nil && s.events {
		err = http.NewResponseController(s.x.w).Flush()
	}
	return n, err
}

// plain rewrites an error that the SDK made by itself: it may have Go's types and the caller's text in it.
func (s *stream) plain(message []byte) []byte {
	head, body, isEvent := bytes.Cut(message, []byte("data: "))
	if !isEvent {
		head, body = nil, message
	}
	var response struct {
		ID    json.RawMessage `json:"id"`
		Error *wire.Error     `json:"error"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(body), &response); err != nil || response.Error == nil {
		return message
	}
	failure := response.Error
	switch failure.Code {
	case wire.CodeHeaderMismatch: // says which header, in the protocol's words
	case wire.CodeInvalidParams:
		failure = wire.InvalidParams("Invalid params")
	case wire.CodeMethodNotFound:
		failure = wire.MethodNotFound()
	default:
		failure = s.e.internal(s.x, fmt.Errorf("the SDK answered: %w", failure))
	}
	s.x.outcome.Store(outcomeOf(failure))
	body = wire.ErrorResponse(response.ID, failure)
	if !isEvent {
		return body
	}
	return fmt.Appendf(nil, "%sdata: %s\n\n", head, body)
}
