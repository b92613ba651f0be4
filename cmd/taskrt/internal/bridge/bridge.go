// Package bridge speaks with the runtime port of the bridge.
package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
)

const (
	// putTimeout bounds the storing of one report.
	putTimeout = 10 * time.Second
	// Wait is how long the bridge may hold a request for answers.
	Wait = 25 * time.Second
	// putResultTimeout bounds the storing of a large result.
	putResultTimeout = 2 * time.Minute
	// slack is what a request for answers may take beyond the wait.
	slack = 10 * time.Second
	// maxAnswers bounds all answers of a task: more than an object of the API server can hold.
	maxAnswers = 4 << 20
)

// Error is an answer of the bridge other than 200.
type Error struct {
	Status int
	Words  string
}

func (e *Error) Error() string {
	if e.Words == "" {
		return fmt.Sprintf("the bridge answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Words
}

// Status is the HTTP status of an error of the bridge, 0 for every other error.
func Status(err error) int {
	var answered *Error
	if errors.As(err, &answered) {
		return answered.Status
	}
	return 0
}

// Client sends a Pod's reports and fetches the answers to its questions.
type Client struct {
	base      string
	tokenFile string
	http      *http.Client
}

// New makes a client for one task. The token is read anew for each request: the kubelet renews it.
func New(runtimeURL, namespace, taskID, tokenFile string) (*Client, error) {
	u, err := url.Parse(runtimeURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("MCPTASK_RUNTIME_URL must be a URL like http://mcptask-bridge.mcptask:8082, not %q", runtimeURL)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &Client{
		base:      strings.TrimRight(runtimeURL, "/") + "/v1/namespaces/" + url.PathEscape(namespace) + "/tasks/" + url.PathEscape(taskID),
		tokenFile: tokenFile,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
				TLSHandshakeTimeout: 5 * time.Second,
				MaxIdleConns:        2,
				IdleConnTimeout:     60 * time.Second,
				Protocols:           protocols,
			},
			// The token is for the bridge alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Put stores a report, and returns the sequence that the bridge has then: a larger one than the report's when it knew a newer one.
func (c *Client) Put(ctx context.Context, body []byte) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	answer, err := c.do(ctx, http.MethodPut, "/report", body, 4<<10)
	if err != nil {
		return 0, err
	}
	var stored struct {
		Sequence int64 `json:"sequence"`
	}
	if err := json.Unmarshal(answer, &stored); err != nil {
		return 0, fmt.Errorf("the bridge's answer to a report: %w", err)
	}
	return stored.Sequence, nil
}

// PutResult stores a result that is too large for a report, which names it afterwards.
func (c *Client) PutResult(ctx context.Context, r *result.File) error {
	ctx, cancel := context.WithTimeout(ctx, putResultTimeout)
	defer cancel()
	file, err := os.Open(r.Path)
	if err != nil {
		return fmt.Errorf("open the result: %w", err)
	}
	defer file.Close()
	_, err = c.send(ctx, http.MethodPut, "/results/"+r.SHA256, io.NewSectionReader(file, r.Offset, r.Bytes), r.Bytes, 4<<10)
	return err
}

// Answers waits until the task has more than after answers, or for Wait, and returns all of them.
func (c *Client) Answers(ctx context.Context, after int) (*report.Answers, error) {
	ctx, cancel := context.WithTimeout(ctx, Wait+slack)
	defer cancel()
	query := url.Values{"after": {strconv.Itoa(after)}, "wait": {strconv.Itoa(int(Wait.Seconds()))}}
	body, err := c.do(ctx, http.MethodGet, "/answers?"+query.Encode(), nil, maxAnswers)
	if err != nil {
		return nil, err
	}
	return report.DecodeAnswers(body)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, limit int64) ([]byte, error) {
	return c.send(ctx, method, path, bytes.NewReader(body), int64(len(body)), limit)
}

// send sends a body of that length, and reads no more of the answer than limit.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader, length, limit int64) ([]byte, error) {
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the Pod's token: %w", err)
	}
	if length == 0 {
		body = http.NoBody
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	request.ContentLength = length
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if length > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the bridge's answer: %w", err)
	}
	if int64(len(answer)) > limit {
		return nil, fmt.Errorf("the bridge's answer has more than %d bytes", limit)
	}
	return answer, nil
}

func refusal(response *http.Response) error {
	var body struct {
		Error string `json:"error"`
	}
	data, _ := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	_ = json.Unmarshal(data, &body) // another body has no words for us
	return &Error{Status: response.StatusCode, Words: body.Error}
}
