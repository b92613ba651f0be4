// Package serve is how the bridge listens: with a time for everything that a client does, a bound for everything that it
// sends, and TLS where that is asked for. What requests mean is not known here.
package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
)

// Limits bound what clients may hold. The time for a body and the time to accept an answer are the handlers' own: they
// know which answers are streams.
type Limits struct {
	// Header is how long a client may take for the handshake of TLS, and then for the line and the headers of a request.
	Header time.Duration
	// Idle is how long a connection may wait for its next request.
	Idle time.Duration
	// HeaderBytes bounds the line and the headers of a request.
	HeaderBytes int
	// Connections that may be open at one time; further ones wait to be accepted.
	Connections int
}

// New makes a server that keeps to the limits. What net/http has to say goes to the log.
func New(handler http.Handler, limits Limits, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: limits.Header,
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    limits.HeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Serve serves on the listener until the server is shut down. The gauge counts the open connections; it may be nil.
func Serve(server *http.Server, listener net.Listener, limits Limits, certificate *Certificate, open prometheus.Gauge) error {
	address := listener.Addr()
	if open != nil {
		server.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Inc()
			case http.StateClosed, http.StateHijacked:
				open.Dec()
			}
		}
	}
	listener = netutil.LimitListener(listener, limits.Connections)
	if certificate != nil {
		listener = certificate.Listener(listener)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", address, err)
	}
	return nil
}
