package endpoint

import (
	"sync"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// subscriptions are the open streams of notifications, which are bounded for each caller and in all.
type subscriptions struct {
	perCaller, inAll int64
	rhythm           rhythm
	metrics          *Metrics

	mu       sync.Mutex
	open     map[*subscription]struct{}
	callers  map[v1alpha1.Identity]int64
	draining bool
}

func newSubscriptions(config *Config) *subscriptions {
	return &subscriptions{perCaller: config.MaxStreamsPerCaller, inAll: config.MaxStreams, rhythm: calm, metrics: config.Metrics,
		open: map[*subscription]struct{}{}, callers: map[v1alpha1.Identity]int64{}}
}

// add takes a place for a stream. Once it is taken, it must be given back with remove.
func (all *subscriptions) add(s *subscription) *wire.Error {
	all.mu.Lock()
	defer all.mu.Unlock()
	caller := s.x.principal.Identity
	switch {
	case all.callers[caller] >= all.perCaller:
		return all.metrics.streamsOfCaller(all.perCaller)
	case int64(len(all.open)) >= all.inAll:
		return all.metrics.streamsInAll(all.inAll)
	}
	all.callers[caller]++
	all.open[s] = struct{}{}
	all.metrics.streams.Set(float64(len(all.open)))
	return nil
}

func (all *subscriptions) remove(s *subscription) {
	all.mu.Lock()
	defer all.mu.Unlock()
	caller := s.x.principal.Identity
	if all.callers[caller]--; all.callers[caller] == 0 {
		delete(all.callers, caller)
	}
	delete(all.open, s)
	all.metrics.streams.Set(float64(len(all.open)))
}

// limitWrite gives the client of a stream the time to accept a write.
func (all *subscriptions) limitWrite(s *subscription) {
	all.mu.Lock()
	defer all.mu.Unlock()
	limit := s.rhythm.write
	if all.draining {
		limit = s.rhythm.hurry
	}
	_ = s.out.SetWriteDeadline(time.Now().Add(limit)) // not every writer has deadlines; then there are no slow clients either
}

// drain keeps clients that do not read from delaying the end of the bridge.
func (all *subscriptions) drain() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.draining = true
	for s := range all.open {
		_ = s.out.SetWriteDeadline(time.Now().Add(s.rhythm.hurry))
	}
}
