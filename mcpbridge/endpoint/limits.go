package endpoint

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// maxPolls bounds the memory of which tasks were polled lately.
	maxPolls = 16384
	// deniedPerSecond and deniedAtOnce are how often one caller may call tools that it is not offered.
	deniedPerSecond, deniedAtOnce = 20, 40
	// longestRetry is what a caller is told at most: much may change in the meantime.
	longestRetry = time.Hour
	// retryBusy is what a caller is told who finds all places of this replica taken.
	retryBusy = 5 * time.Second
	// retryUnknown is what a caller is told when nobody knows how long it takes.
	retryUnknown = time.Minute
)

// caller is who is counted: a principal in a namespace.
type caller struct {
	namespace string
	identity  v1alpha1.Identity
}

// paces are how fast callers may go on at this replica.
type paces struct {
	calls, polls *limits.Buckets[caller]
	// denied bounds the calls of tools that the caller is not offered: each new name costs the API server a review.
	denied *limits.Buckets[caller]
	// polled are the tasks that were polled less than their interval ago.
	polled *cache.LRUExpireCache // types.NamespacedName → nothing
}

func newPaces(l limits.Limits) *paces {
	return &paces{
		calls:  limits.NewBuckets[caller](float64(l.CallsPerMinute)/60, l.CallsPerMinute),
		polls:  limits.NewBuckets[caller](float64(l.PollsPerSecond), l.PollBurst()),
		denied: limits.NewBuckets[caller](deniedPerSecond, deniedAtOnce),
		polled: cache.NewLRUExpireCache(maxPolls),
	}
}

func (x *exchange) taskKey() types.NamespacedName {
	return types.NamespacedName{Namespace: x.task.Namespace, Name: x.task.Name}
}

func (x *exchange) caller() caller { return caller{x.namespace, x.principal.Identity} }

// refused counts a refusal and puts it into the caller's words.
func (m *Metrics) refused(r *limits.Refusal) *wire.Error {
	m.refusals.WithLabelValues(r.Limit).Inc()
	return wire.LimitReached(r.Limit, r.Value, r.RetryAfter, r.Words)
}

// withStatus is for refusals that are about the connection rather than about a call: clients slow down by themselves.
func withStatus(failure *wire.Error, status int) *wire.Error {
	failure.Status = status
	return failure
}

// reserveTask takes a place for a task that is about to be made, or says which limit leaves none. release must be called once the
// task is remembered, or was not made.
func (e *Endpoint) reserveTask(x *exchange, tool *tools.Tool, task *v1alpha1.McpTask) (release func(), failure *wire.Error) {
	if _, known := e.Store.Get(types.NamespacedName{Namespace: task.Namespace, Name: task.Name}); known {
		return func() {}, nil // a further try of the same call
	}
	if wait := e.paces.calls.Take(x.caller()); wait > 0 {
		return nil, e.Metrics.refused(&limits.Refusal{Limit: limits.CallsPerMinute, Value: e.Limits.CallsPerMinute, RetryAfter: wait,
			Words: "you have called tools too often within a minute"})
	}
	release, refusal := e.Store.Reserve(task, func(c limits.Counts) *limits.Refusal { return e.Limits.Check(c, tool.Limits()) })
	if refusal == nil {
		return release, nil
	}
	if refusal.RetryAfter == 0 {
		owner := &x.principal.Identity
		if refusal.Limit == limits.StoredTasksPerNamespace {
			owner = nil
		}
		refusal.RetryAfter = untilExpiry(e.Store.FirstExpiry(x.namespace, owner), time.Now())
	}
	return nil, e.Metrics.refused(refusal)
}

// untilExpiry is how long a caller waits for a stored task to go.
func untilExpiry(at, now time.Time) time.Duration {
	if at.IsZero() {
		return retryUnknown
	}
	return min(max(at.Sub(now), time.Second), longestRetry)
}

var quotaLimit = regexp.MustCompile(`limited: count/mcptasks\.mcptask\.dev=(\d+)`)

// quotaRefusal is the answer to a task that a ResourceQuota of the namespace does not let in; nil when the refusal is about
// something else.
func (e *Endpoint) quotaRefusal(err error) *wire.Error {
	if !apierrors.IsForbidden(err) {
		return nil
	}
	found := quotaLimit.FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	value, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		return nil
	}
	return e.Metrics.refused(&limits.Refusal{Limit: limits.ResourceQuota, Value: value, RetryAfter: retryUnknown,
		Words: "as many tasks are stored in this namespace as its quota allows; ended tasks are deleted once they have expired"})
}

// polled counts those who ask for the state of a task earlier than they were told. They are answered all the same.
func (e *Endpoint) polled(key types.NamespacedName, intervalMs int64) {
	if _, early := e.paces.polled.Get(key); early {
		e.Metrics.earlyPolls.Inc()
	}
	e.paces.polled.Add(key, struct{}{}, time.Duration(intervalMs)*time.Millisecond)
}

// pace refuses what a caller asks for too often.
func (e *Endpoint) pace(x *exchange) *wire.Error {
	wait := e.paces.polls.Take(x.caller())
	if wait == 0 {
		return nil
	}
	return withStatus(e.Metrics.refused(&limits.Refusal{Limit: limits.PollsPerSecond, Value: e.Limits.PollsPerSecond, RetryAfter: wait,
		Words: "you ask for the state of tasks more often than this server answers; keep to pollIntervalMs, or listen (subscriptions/listen)"}), http.StatusTooManyRequests)
}

// tooManyLookups refuses further look-ups of tasks that nobody knows.
func (m *Metrics) tooManyLookups() *wire.Error {
	return withStatus(m.refused(&limits.Refusal{Limit: limits.LookupsPerSecond, Value: tasks.LookupsPerSecond, RetryAfter: time.Second,
		Words: "you ask for too many tasks that this server does not know"}), http.StatusTooManyRequests)
}

// tooManyDenied refuses further calls of one who has lately called many tools that it is not offered, whether these exist or not.
func (m *Metrics) tooManyDenied() *wire.Error {
	return m.refused(&limits.Refusal{Limit: limits.DeniedCallsPerSecond, Value: deniedPerSecond, RetryAfter: time.Second,
		Words: "you call too many tools that this server does not offer you; tools/list says which it does"})
}

// streamsOfCaller and streamsInAll refuse a further stream.
func (m *Metrics) streamsOfCaller(limit int64) *wire.Error {
	return withStatus(m.refused(&limits.Refusal{Limit: limits.StreamsPerCaller, Value: limit, RetryAfter: retryBusy, Words: fmt.Sprintf(
		"you have %d streams of notifications open, as many as this server holds for one caller; close some, name more tasks in one request, or poll with tasks/get", limit)}),
		http.StatusTooManyRequests)
}

func (m *Metrics) streamsInAll(limit int64) *wire.Error {
	return withStatus(m.refused(&limits.Refusal{Limit: limits.Streams, Value: limit, RetryAfter: retryBusy, Words: fmt.Sprintf(
		"%d streams of notifications are open, as many as this server holds; poll with tasks/get", limit)}), http.StatusServiceUnavailable)
}
