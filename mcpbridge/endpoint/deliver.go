package endpoint

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// maxDelivered bounds the large results on their way to clients at one time, in Secrets that they are stored in: 64 MiB.
	// What slow clients have not taken yet stays in memory, whatever the caches let go.
	maxDelivered = 128
	// maxDeliveredToCaller is what of that one caller may take up: two of the largest results.
	maxDeliveredToCaller = 32
	// deliveryPatience is how long a result waits for the others.
	deliveryPatience = 10 * time.Second
)

// deliveries are the large results on their way to clients.
type deliveries struct {
	all *semaphore.Weighted

	mu      sync.Mutex
	callers map[caller]*share
}

// share is what is on its way, or waits to be, to one caller.
type share struct {
	room *semaphore.Weighted
	uses int
}

func newDeliveries() *deliveries {
	return &deliveries{all: semaphore.NewWeighted(maxDelivered), callers: map[caller]*share{}}
}

// begin waits until there is room for a result in so many Secrets. done must be called once the client has it.
func (d *deliveries) begin(ctx context.Context, to caller, secrets int64) (done func(), err error) {
	d.mu.Lock()
	s := d.callers[to]
	if s == nil {
		s = &share{room: semaphore.NewWeighted(maxDeliveredToCaller)}
		d.callers[to] = s
	}
	s.uses++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if s.uses--; s.uses == 0 {
			delete(d.callers, to)
		}
	}
	if err := s.room.Acquire(ctx, secrets); err != nil {
		leave()
		return nil, err
	}
	if err := d.all.Acquire(ctx, secrets); err != nil {
		s.room.Release(secrets)
		leave()
		return nil, err
	}
	return func() {
		d.all.Release(secrets)
		s.room.Release(secrets)
		leave()
	}, nil
}

// deliver waits until the result of a task may be on its way, if it is a large one. done must be called once the client has it.
func (e *Endpoint) deliver(x *exchange, task *v1alpha1.McpTask) (done func(), failure *wire.Error) {
	result := task.Status.Result
	if task.Status.State != v1alpha1.TaskCompleted || result == nil || result.SecretRef == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(x.http.Context(), deliveryPatience)
	defer cancel()
	done, err := e.deliveries.begin(ctx, x.caller(), min(int64(result.SecretRef.Parts), maxDeliveredToCaller))
	if err != nil {
		return nil, e.Metrics.refused(&limits.Refusal{Limit: limits.LargeResults, Value: maxDelivered, RetryAfter: retryBusy,
			Words: "many large results are on their way to clients, and some are slow to take them; the task's result is kept"})
	}
	return done, nil
}
