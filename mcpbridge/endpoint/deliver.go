package endpoint

import (
	"context"
	"time"

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

// deliver waits until the result of a task may be on its way, if it is a large one. done must be called once the client has it.
func (e *Endpoint) deliver(x *exchange, task *v1alpha1.McpTask) (done func(), failure *wire.Error) {
	result := task.Status.Result
	if task.Status.State != v1alpha1.TaskCompleted || result == nil || result.SecretRef == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(x.http.Context(), deliveryPatience)
	defer cancel()
	done, err := e.deliveries.Take(ctx, x.caller(), int64(result.SecretRef.Parts))
	if err != nil {
		return nil, e.Metrics.refused(&limits.Refusal{Limit: limits.LargeResults, Value: maxDelivered, RetryAfter: retryBusy,
			Words: "many large results are on their way to clients, and some are slow to take them; the task's result is kept"})
	}
	return done, nil
}
