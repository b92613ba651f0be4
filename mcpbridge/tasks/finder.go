package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
)

var (
	// ErrUnknown means that no such task is stored.
	ErrUnknown = errors.New("no such task")
	// ErrTooMany means that the caller asked for too many tasks that nobody knows.
	ErrTooMany = errors.New("too many look-ups of unknown tasks")
)

const (
	// missingFor spares the API server the same question again and again.
	missingFor = time.Second
	// maxMissing bounds the memory.
	maxMissing = 8192
	// LookupsPerSecond and lookupBurst bound the live reads of one caller.
	LookupsPerSecond, lookupBurst = 20, 40
	liveTimeout                   = 5 * time.Second
)

// Finder settles a cache miss with one live read, so that a handle that another replica has just given resolves here.
type Finder struct {
	store   *Store
	api     API
	read    func() // counts live reads
	flight  singleflight.Group
	missing *cache.LRUExpireCache   // types.NamespacedName → nothing
	lookups *limits.Buckets[string] // by caller
}

// NewFinder makes a Finder over a store. read is called for each live read.
func NewFinder(store *Store, api API, read func()) *Finder {
	return &Finder{store: store, api: api, read: read,
		missing: cache.NewLRUExpireCache(maxMissing), lookups: limits.NewBuckets[string](LookupsPerSecond, lookupBurst)}
}

// Find returns the task, ErrUnknown, ErrTooMany, or why the API server did not answer.
func (f *Finder) Find(ctx context.Context, key types.NamespacedName, caller string) (*v1alpha1.McpTask, error) {
	if task, ok := f.store.Get(key); ok {
		return task, nil
	}
	if !v1alpha1.ValidTaskID(key.Name) {
		return nil, ErrUnknown
	}
	if _, ok := f.missing.Get(key); ok {
		return nil, ErrUnknown
	}
	if f.lookups.Take(caller) > 0 {
		return nil, ErrTooMany
	}
	found, err, _ := f.flight.Do(key.String(), func() (any, error) {
		if task, ok := f.store.Get(key); ok { // another's read has just ended
			return task, nil
		}
		return f.live(ctx, key)
	})
	if err != nil {
		return nil, err
	}
	return found.(*v1alpha1.McpTask), nil
}

// Refresh reads a task from the API server although this replica knows it, because a caller seems to know more. It joins
// no other's read: that may have begun before what the caller knows.
func (f *Finder) Refresh(ctx context.Context, key types.NamespacedName, caller string) (*v1alpha1.McpTask, error) {
	if f.lookups.Take(caller) > 0 {
		return nil, ErrTooMany
	}
	return f.live(ctx, key)
}

func (f *Finder) live(ctx context.Context, key types.NamespacedName) (*v1alpha1.McpTask, error) {
	f.read()
	// Not the caller's context: others may wait for the same answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
	defer cancel()
	task, err := f.api.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		f.missing.Add(key, struct{}{}, missingFor)
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("reading task %s: %w", key, err)
	}
	f.store.Remember(task)
	return task, nil
}
