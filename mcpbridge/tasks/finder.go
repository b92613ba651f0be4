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
	// ErrStranger means that the task is not that of the caller, who is to be told ErrUnknown's answer.
	ErrStranger = errors.New("somebody else's task")
	// ErrTooMany means that the caller asked for too many tasks that nobody knows.
	ErrTooMany = errors.New("too many look-ups of unknown tasks")
)

const (
	// missingFor spares the API server the same question again and again.
	missingFor = time.Second
	// maxMissing bounds the memory.
	maxMissing = 8192
	// LookupsPerSecond and LookupBurst bound the live reads of one caller.
	LookupsPerSecond, LookupBurst = 20, 40
	liveTimeout                   = 5 * time.Second
)

// Finder settles a cache miss with one live read, so that a handle that another replica has just given resolves here.
type Finder struct {
	store   *Store
	api     API
	read    func() // counts live reads
	flight  singleflight.Group
	missing *cache.LRUExpireCache   // lookup → nothing
	lookups *limits.Buckets[string] // by caller
}

// NewFinder makes a Finder over a store. read is called for each live read.
func NewFinder(store *Store, api API, read func()) *Finder {
	return &Finder{store: store, api: api, read: read,
		missing: cache.NewLRUExpireCache(maxMissing), lookups: limits.NewBuckets[string](LookupsPerSecond, LookupBurst)}
}

// lookup is a question that had no answer: for a task that is not there, or for one of somebody else's.
type lookup struct {
	key      types.NamespacedName
	stranger bool
}

// Find returns the task, ErrUnknown, ErrTooMany, or why the API server did not answer.
func (f *Finder) Find(ctx context.Context, key types.NamespacedName, caller string) (*v1alpha1.McpTask, error) {
	return f.FindOwn(ctx, key, caller, func(*v1alpha1.McpTask) bool { return true })
}

// FindOwn is Find for a caller who may only know of own tasks. For others it returns ErrStranger, at the cost of a task
// that is not there: a stranger's question is remembered, counted and asked of the API server in the same way, under a name
// that no task has, so that neither the time nor the limits tell the two apart.
func (f *Finder) FindOwn(ctx context.Context, key types.NamespacedName, caller string, owns func(*v1alpha1.McpTask) bool) (*v1alpha1.McpTask, error) {
	known, ok := f.store.Get(key)
	if ok && owns(known) {
		return known, nil
	}
	if !v1alpha1.ValidTaskID(key.Name) {
		return nil, ErrUnknown
	}
	asked, answer := lookup{key: key, stranger: ok}, ErrUnknown
	if ok {
		answer = ErrStranger
	}
	if _, ok := f.missing.Get(asked); ok {
		return nil, answer
	}
	if f.lookups.Take(caller) > 0 {
		return nil, ErrTooMany
	}
	found, err, _ := f.flight.Do(fmt.Sprint(asked), func() (any, error) {
		if asked.stranger {
			return nil, f.decoy(ctx, asked)
		}
		if task, ok := f.store.Get(key); ok { // another's read has just ended
			return task, nil
		}
		return f.live(ctx, key)
	})
	if err != nil {
		return nil, err
	}
	if task := found.(*v1alpha1.McpTask); owns(task) {
		return task, nil
	}
	return nil, ErrStranger
}

// decoy looks for a task that is not there, in the place of one that is somebody else's.
func (f *Finder) decoy(ctx context.Context, asked lookup) error {
	_, err := f.live(ctx, types.NamespacedName{Namespace: asked.key.Namespace, Name: v1alpha1.NewTaskID()})
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	f.missing.Add(asked, struct{}{}, missingFor)
	return ErrStranger
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
		f.missing.Add(lookup{key: key}, struct{}{}, missingFor)
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("reading task %s: %w", key, err)
	}
	f.store.Remember(task)
	return task, nil
}
