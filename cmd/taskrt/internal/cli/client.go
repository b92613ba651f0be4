package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

// again is the time between two tries while the sidecar is away.
const again = 200 * time.Millisecond

// maxAnswer bounds an answer of the sidecar.
const maxAnswer = 1 << 20

// client speaks with the sidecar. It tries again while the sidecar is being restarted, until its context is done.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) *client {
	return &client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// refusal is an answer of the sidecar that is none of success.
type refusal struct {
	status int
	words  string
}

func (r *refusal) Error() string { return r.words }

// call sends a request and reads the answer into target, which may be nil.
func (c *client) call(ctx context.Context, method, path string, body, target any) error {
	encoded, isJSON := body.(json.RawMessage) // sent as it is
	if body != nil && !isJSON {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for {
		err := c.try(ctx, method, path, encoded, target)
		if !away(err) {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return fmt.Errorf("the sidecar mcptask-runtime does not answer: %w", err)
		}
	}
}

func (c *client) try(ctx context.Context, method, path string, body []byte, target any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://task"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no socket at %s (MCPTASK_SOCKET): is the volume mcptask mounted at /mcptask in this container?", c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the socket %s (MCPTASK_SOCKET) may not be used: %w", c.socket, err)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the sidecar's answer: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return refused(response.StatusCode, answer)
	}
	if target == nil || response.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(answer, target); err != nil {
		return fmt.Errorf("the sidecar's answer: %w", err)
	}
	return nil
}

func refused(status int, answer []byte) error {
	var body struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &body) != nil || body.Error == "" {
		body.Error = fmt.Sprintf("the sidecar answered %d %s", status, http.StatusText(status))
	}
	return &refusal{status, body.Error}
}

// away says whether the sidecar was not there, or went away, as it is when it is restarted; or whether it is busy.
func away(err error) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
