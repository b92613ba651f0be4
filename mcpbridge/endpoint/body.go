package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// smallBody is what every request may send: what there are connections for.
	smallBody = 16 << 10
	// maxBodies bounds what larger bodies take of the memory until they are answered, which calls and streams may wait for, and
	// maxBodiesOfCaller those of one caller.
	maxBodies, maxBodiesOfCaller = 64 << 20, 8 << 20
	// bodyPatience is how long a body waits for others.
	bodyPatience = 5 * time.Second
	// maxLeftover is how much of a refused body is taken from the wire: a client that is still sending does not read its
	// answer. net/http takes as much as leftover by itself.
	leftover, maxLeftover = 256 << 10, 8 << 20
)

// read takes the body, and from it the request. A large one has its room until the request is answered.
func (e *Endpoint) read(x *exchange) *wire.Error {
	if x.http.ContentLength > e.MaxBodyBytes {
		return status(http.StatusRequestEntityTooLarge, "the body is larger than this server accepts")
	}
	body, err := e.takeBody(x)
	var tooLarge *http.MaxBytesError
	var busy *wire.Error
	switch {
	case errors.As(err, &busy):
		return busy
	case errors.As(err, &tooLarge):
		return status(http.StatusRequestEntityTooLarge, "the body is larger than this server accepts")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return status(http.StatusRequestTimeout, "the body did not arrive in time")
	case err != nil:
		return status(http.StatusBadRequest, "the body could not be read")
	}
	// From here on the connection is only watched for the caller's leaving, however long the answer takes.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	if x.http.Method == http.MethodGet {
		return nil
	}
	request, failure := wire.ReadRequest(body)
	x.request = request
	return failure
}

// discard takes the body of a request that is refused, without keeping it.
func (x *exchange) discard() {
	if x.http.ContentLength <= leftover || x.http.Header.Get("Expect") != "" { // who expects "100 Continue" sends nothing
		return
	}
	_, _ = io.CopyN(io.Discard, x.http.Body, min(x.http.ContentLength, maxLeftover)) // whatever comes, the answer is the same
}

// takeBody reads the body: the beginning at once, and the rest when there is room for it.
func (e *Endpoint) takeBody(x *exchange) ([]byte, error) {
	body := http.MaxBytesReader(x.w, x.http.Body, e.MaxBodyBytes)
	var read bytes.Buffer
	if n, err := io.CopyN(&read, body, smallBody); err != nil || n < smallBody {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return read.Bytes(), err
	}
	size := x.http.ContentLength
	if size < 0 {
		size = e.MaxBodyBytes
	}
	ctx, cancel := context.WithTimeout(x.http.Context(), bodyPatience)
	defer cancel()
	leave, err := e.bodies.Take(ctx, x.caller(), size)
	if err != nil {
		return nil, withStatus(e.Metrics.refused(&limits.Refusal{Limit: limits.LargeBodies, Value: maxBodiesOfCaller, RetryAfter: retryBusy,
			Words: "many large requests are arriving, of yours or in all"}), http.StatusServiceUnavailable)
	}
	x.leave = append(x.leave, leave)
	_, err = read.ReadFrom(body)
	return read.Bytes(), err
}
