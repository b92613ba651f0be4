package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// errNoReplica means that there is nobody to send a request to.
var errNoReplica = errors.New("no replica of the bridge is known")

// dialer gives up on replicas that do not answer, as a load balancer would.
var dialer = &net.Dialer{Timeout: 2 * time.Second}

// caller sends JSON-RPC messages to one endpoint through any of its replicas.
type caller struct {
	// replicas are the base URLs of those that are known, newest first.
	replicas func() []string
	path     string
	token    string
	http     *http.Client
}

func newCaller(replicas func() []string, path, token string) *caller {
	return &caller{replicas: replicas, path: path, token: token, http: &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: 10 * time.Second,
	}}}
}

// pick is one replica at random.
func (c *caller) pick() (string, error) {
	known := c.replicas()
	if len(known) == 0 {
		return "", errNoReplica
	}
	return known[rand.IntN(len(known))], nil
}

// message is what comes back: a response, or a request or notification of the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// refusal is a JSON-RPC error, or an HTTP error without one.
type refusal struct {
	code   int64
	status int
	text   string // JSON
}

func (r *refusal) Error() string { return r.text }

// send makes a request and reads the answer up to the response with the id. What the server says before goes to heard.
func (c *caller) send(ctx context.Context, replica string, request map[string]any, header map[string]string, heard func(*message)) (json.RawMessage, http.Header, error) {
	request["jsonrpc"] = "2.0"
	body, err := json.Marshal(request)
	if err != nil {
		return nil, nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, replica+c.path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	c.sign(post, header)
	answer, err := c.http.Do(post)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusAccepted {
		return nil, answer.Header, nil
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		result, err := c.hear(answer, request["id"], heard)
		return result, answer.Header, err
	}
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, nil, err
	}
	var m message
	if err := json.Unmarshal(raw, &m); err != nil || m.Result == nil && m.Error == nil {
		text, _ := json.Marshal(fmt.Sprintf("HTTP %d: %.200s", answer.StatusCode, raw)) // a string
		return nil, nil, &refusal{status: answer.StatusCode, text: string(text)}
	}
	result, err := m.settle(answer.StatusCode)
	return result, answer.Header, err
}

func (c *caller) sign(request *http.Request, header map[string]string) {
	request.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range header {
		request.Header.Set(name, value)
	}
}

// hear reads a stream of events, up to the response with the id, or to its end where id is nil.
func (c *caller) hear(answer *http.Response, id any, heard func(*message)) (json.RawMessage, error) {
	if answer.StatusCode != http.StatusOK {
		return nil, &refusal{status: answer.StatusCode, text: fmt.Sprintf(`"HTTP %d"`, answer.StatusCode)}
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var m message
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return nil, fmt.Errorf("an event that is no message: %.200s", data)
		}
		if m.Method == "" && id != nil && string(m.ID) == fmt.Sprint(id) {
			return m.settle(answer.StatusCode)
		}
		if heard != nil && m.Method != "" {
			heard(&m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

func (m *message) settle(status int) (json.RawMessage, error) {
	if m.Error == nil {
		return m.Result, nil
	}
	var e struct{ Code int64 }
	if err := json.Unmarshal(m.Error, &e); err != nil {
		return nil, fmt.Errorf("an error that cannot be read: %s", m.Error)
	}
	return nil, &refusal{code: e.Code, status: status, text: string(m.Error)}
}

// outcome splits an error into what the server refused and what was lost on the way.
func outcome(err error) (refused, lost string) {
	var no *refusal
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &no) && no.code != 0:
		return no.text, ""
	}
	return "", err.Error()
}

func isCode(err error, code int64) bool {
	var no *refusal
	return errors.As(err, &no) && no.code == code
}
