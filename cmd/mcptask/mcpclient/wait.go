package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// defaultPollInterval is used when the server suggests none.
	defaultPollInterval = time.Second
	// minPollInterval keeps a server that suggests next to nothing from being flooded.
	minPollInterval = 20 * time.Millisecond
)

// Wait looks at a task again and again, as often as its server wants, until it has ended or ctx ends. Each look is
// handed to seen, unless that is nil. Looks that the server did not answer, or put off with HTTP 429, 502, 503 or 504,
// are repeated after the delays of Options.Retry, which start anew with each answer.
func (c *Client) Wait(ctx context.Context, id string, seen func(*Task)) (*Task, error) {
	retry := c.options.Retry
	for {
		task, err := c.GetTask(ctx, id)
		var delay time.Duration
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			retry = c.options.Retry
			if seen != nil {
				seen(task)
			}
			if task.Status.Terminal() {
				return task, nil
			}
			delay = task.pollInterval()
		case passing(err) && retry.Steps > 0:
			delay = retry.Step()
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(delay):
		}
	}
}

func (t *Task) pollInterval() time.Duration {
	if t.PollIntervalMs == 0 {
		return defaultPollInterval
	}
	return max(time.Duration(t.PollIntervalMs)*time.Millisecond, minPollInterval)
}

// passing says whether the same request may be answered in a moment.
func passing(err error) bool {
	if errors.Is(err, ErrNoAnswer) {
		return true
	}
	var refused *RPCError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.HTTPStatus {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
