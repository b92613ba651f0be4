// Package socket is the HTTP interface of the sidecar for the program, on a Unix socket. It is described in docs/taskrt-openapi.yaml.
package socket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/task"
)

const (
	// maxConnections at once; further ones wait.
	maxConnections = 512
	// maxSmall is how much of every body is read at once; of that which is larger only maxLarge at a time are read further. So the
	// memory that bodies take is bounded, and a body that does not come holds up nobody's small one.
	maxSmall = 8 << 10
	maxLarge = 4
	// headersWithin and bodyWithin bound the reading of a request: its sender is in the same Pod.
	headersWithin = 5 * time.Second
	bodyWithin    = 5 * time.Second
	// resultWithin is the same for a result, which may be large.
	resultWithin = time.Minute
	// MaxWait is how long a request for an answer may wait.
	MaxWait = 60 * time.Second
)

// Server serves the programs of one Pod.
type Server struct {
	// Task is what they speak about.
	Task *task.Task
	// TaskID and Namespace name it.
	TaskID, Namespace string
	// Asks are the modes of question that are allowed.
	Asks []string
	// Spool takes results.
	Spool *result.Spool
	Log   *slog.Logger

	large      chan struct{}
	bodyWithin time.Duration
}

// Routes are the methods and paths that are served.
var Routes = []string{
	"GET /v1/task", "POST /v1/progress", "POST /v1/state", "POST /v1/questions", "GET /v1/questions/{key}",
	"POST /v1/result", "POST /v1/fail", "POST /v1/cancelled",
}

// Handler serves the requests.
func (s *Server) Handler() http.Handler {
	s.large = make(chan struct{}, maxLarge)
	if s.bodyWithin == 0 {
		s.bodyWithin = bodyWithin
	}
	handlers := map[string]func(r *http.Request, body []byte) (any, error){
		"GET /v1/task":            s.task,
		"POST /v1/progress":       s.progress,
		"POST /v1/state":          s.state,
		"POST /v1/questions":      s.questions,
		"GET /v1/questions/{key}": s.question,
		"POST /v1/fail":           s.fail,
		"POST /v1/cancelled":      s.cancelled,
	}
	mux := http.NewServeMux()
	for _, route := range Routes {
		handle := handlers[route]
		if handle == nil {
			continue // it is the result's
		}
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			body, err := s.body(w, r)
			if err != nil {
				s.answer(w, nil, err)
				return
			}
			answer, err := handle(r, body)
			s.answer(w, answer, err)
		})
	}
	mux.HandleFunc("POST /v1/result", func(w http.ResponseWriter, r *http.Request) {
		taken, err := s.takeResult(w, r)
		if err != nil {
			s.answer(w, nil, err)
			return
		}
		answer, err := s.result(r, taken)
		s.answer(w, answer, err)
	})
	return mux
}

// takeResult reads a result of any size.
func (s *Server) takeResult(w http.ResponseWriter, r *http.Request) (result.Taken, error) {
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(s.bodyWithin)); err != nil {
		return result.Taken{}, fmt.Errorf("read the body: %w", err)
	}
	body := bufio.NewReaderSize(r.Body, maxSmall)
	_, err := body.Peek(maxSmall)
	if err == nil { // there is more
		if err = s.enter(r); err == nil {
			defer func() { <-s.large }()
			err = connection.SetReadDeadline(time.Now().Add(resultWithin))
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return result.Taken{}, errLate
	case err != nil && !errors.Is(err, io.EOF):
		return result.Taken{}, err
	}
	taken, err := s.Spool.Take(body)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return taken, errLate
	case errors.As(err, new(*os.PathError)):
		return taken, err // of the spool
	case err != nil:
		return taken, &task.Refusal{Reason: fmt.Errorf("the result %w", err)}
	}
	return taken, connection.SetReadDeadline(time.Time{})
}

// enter waits for the turn of a large body.
func (s *Server) enter(r *http.Request) error {
	patience := time.NewTimer(s.bodyWithin)
	defer patience.Stop()
	select {
	case s.large <- struct{}{}:
		return nil
	case <-patience.C:
		return errBusy
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// Listen makes the socket, open to every user id of the Pod. It replaces the socket of a sidecar that is gone, at once: whoever finds it
// can connect.
func Listen(path string) (net.Listener, error) {
	next := path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: next, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(next, 0o666), os.Rename(next, path)); err != nil { //nolint:gosec // open to every user of the Pod, as said above
		return nil, errors.Join(fmt.Errorf("socket: %w", err), listener.Close())
	}
	return netutil.LimitListener(listener, maxConnections), nil
}

// Serve serves until the listener is closed or ctx is done.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headersWithin,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("socket: %w", err)
	}
	return nil
}

var (
	errTooLarge = fmt.Errorf("the body has more than %d bytes", report.MaxBytes)
	errLate     = errors.New("the body did not come in time")
	errBusy     = errors.New("the sidecar is busy with other large requests; try again")
)

// body reads the body of a request. The time for it is not the server's ReadTimeout: that would end requests that wait. A body that
// could not be read leaves its time over, so that the server does not wait for the rest.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(s.bodyWithin)); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxSmall))
	if err == nil && len(data) == maxSmall {
		data, err = s.rest(data, r)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errLate
	}
	if err != nil {
		return nil, err
	}
	if err := connection.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return data, nil
}

// rest reads on when it is the turn of this large body.
func (s *Server) rest(begun []byte, r *http.Request) ([]byte, error) {
	if err := s.enter(r); err != nil {
		return nil, err
	}
	defer func() { <-s.large }()
	data := bytes.NewBuffer(begun)
	_, err := io.Copy(data, io.LimitReader(r.Body, int64(report.MaxBytes-len(begun)+1)))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the body: %w", err)
	case data.Len() > report.MaxBytes:
		return nil, errTooLarge
	}
	return data.Bytes(), nil
}

// answer writes JSON, or no content when there is neither an answer nor an error.
func (s *Server) answer(w http.ResponseWriter, answer any, err error) {
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
		answer = struct {
			Error string `json:"error"`
		}{err.Error()}
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		s.Log.Debug("an answer did not reach the program", "reason", err.Error())
	}
}

func statusOf(err error) int {
	switch {
	case errors.As(err, new(*task.Refusal)):
		return http.StatusUnprocessableEntity
	case errors.Is(err, task.ErrEnded):
		return http.StatusGone
	case errors.Is(err, task.ErrNoSuchQuestion):
		return http.StatusNotFound
	case errors.Is(err, task.ErrOtherAsk), errors.Is(err, task.ErrReplaced):
		return http.StatusConflict
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errLate):
		return http.StatusRequestTimeout
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// waitTime reads ?wait=SECONDS; more than MaxWait counts as MaxWait.
func waitTime(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, &task.Refusal{Reason: errors.New("wait must be a number of seconds")}
	}
	return min(time.Duration(seconds)*time.Second, MaxWait), nil
}

// resultSize reads ?size=BYTES, the size of what a program had that leaves out some of it.
func resultSize(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("size")
	if text == "" {
		return 0, nil
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 1 {
		return 0, &task.Refusal{Reason: errors.New("size must be a number of bytes, from 1 on")}
	}
	return size, nil
}

// newID is the id of an ask whose program gave none.
func newID() string { return rand.Text() }
