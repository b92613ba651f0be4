package crawler

import (
	"context"
	"sync"
	"time"
)

// pacer keeps the starts of requests to a host apart.
type pacer struct {
	mu   sync.Mutex
	gap  time.Duration
	next time.Time
}

// setGap changes the time between two starts, counted from now on.
func (p *pacer) setGap(gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gap = gap
	p.next = time.Now().Add(gap)
}

// wait returns when a request may start, or with ctx's error.
func (p *pacer) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	start := p.next
	if start.Before(now) {
		start = now
	}
	p.next = start.Add(p.gap)
	p.mu.Unlock()

	if start.After(now) {
		timer := time.NewTimer(start.Sub(now))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
