package limits

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Rooms share out what there is in all, so much of it at most to each key. Who finds too little waits for others to leave.
type Rooms[K comparable] struct {
	all  *semaphore.Weighted
	each int64

	mu    sync.Mutex
	known map[K]*room
}

// room is what one key has taken, or waits for.
type room struct {
	*semaphore.Weighted
	uses int
}

// NewRooms shares out all, and each at most to one key.
func NewRooms[K comparable](all, each int64) *Rooms[K] {
	return &Rooms[K]{all: semaphore.NewWeighted(all), each: each, known: map[K]*room{}}
}

// Take waits until there is room for n, which is no more than a key may have. leave gives it back. The error is that of ctx.
func (r *Rooms[K]) Take(ctx context.Context, key K, n int64) (leave func(), err error) {
	n = min(n, r.each)
	own := r.enter(key)
	if err := own.Acquire(ctx, n); err != nil {
		r.exit(key, own)
		return nil, err
	}
	if err := r.all.Acquire(ctx, n); err != nil {
		own.Release(n)
		r.exit(key, own)
		return nil, err
	}
	return func() {
		r.all.Release(n)
		own.Release(n)
		r.exit(key, own)
	}, nil
}

// Users is how many have taken something of a key's room, or wait for it.
func (r *Rooms[K]) Users(key K) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.known[key]; own != nil {
		return own.uses
	}
	return 0
}

func (r *Rooms[K]) enter(key K) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.known[key]
	if own == nil {
		own = &room{Weighted: semaphore.NewWeighted(r.each)}
		r.known[key] = own
	}
	own.uses++
	return own
}

func (r *Rooms[K]) exit(key K, own *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.uses--; own.uses == 0 {
		delete(r.known, key)
	}
}
