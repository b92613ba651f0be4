package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

const (
	// maxInlineBytes bounds the results that stood in tasks: the thousand largest ones, or as many more as they are smaller.
	maxInlineBytes = 16 << 20
	// resultTimeout bounds the reading of one result, which may be in several Secrets.
	resultTimeout = 20 * time.Second
	// lostFor spares the API server the same question again and again.
	lostFor = 5 * time.Second
	maxLost = 1024
)

// Results finds the results of tasks. Those that stand in the task itself come with the watch and are kept, the last ones, within a
// bound; all others are read when somebody asks.
type Results struct {
	store   *Store
	api     API
	secrets Secrets
	read    func()                // counts results that were read from the API server
	lost    *cache.LRUExpireCache // types.UID → *resultsecret.Damaged
}

// NewResults finds results for the tasks of a store. read is called for each one that is read from the API server.
func NewResults(store *Store, api API, secrets Secrets, read func()) *Results {
	return &Results{store: store, api: api, secrets: secrets, read: read, lost: cache.NewLRUExpireCache(maxLost)}
}

// of is the result of a task, nil where it has none. The error is ErrUnknown where the task is gone, a *resultsecret.Damaged where its
// result is, else why the API server did not answer.
func (r *Results) of(ctx context.Context, task *v1alpha1.McpTask) ([]byte, error) {
	result := task.Status.Result
	switch {
	case result == nil:
		return nil, nil
	case result.Inline != nil:
		return result.Inline.Raw, nil
	case result.SecretRef == nil:
		if raw, ok := r.store.inline.get(task.UID); ok {
			return raw, nil
		}
	}
	if damaged, ok := r.lost.Get(task.UID); ok {
		return nil, damaged.(error)
	}
	r.read()
	ctx, cancel := context.WithTimeout(ctx, resultTimeout)
	defer cancel()
	if result.SecretRef == nil {
		return r.live(ctx, task)
	}
	raw, err := resultsecret.Read(ctx, task, r.secrets.Secret)
	var damaged *resultsecret.Damaged
	switch {
	case errors.As(err, &damaged):
		// The Secrets of a task go with it, and this replica may not have heard of that yet.
		if _, err := r.stored(ctx, task); err != nil {
			return nil, err
		}
		r.lost.Add(task.UID, damaged, lostFor)
		return nil, damaged
	case err != nil:
		return nil, fmt.Errorf("reading the result of task %s/%s: %w", task.Namespace, task.Name, err)
	}
	return raw, nil
}

// live reads the result that stands in the task itself. It is final: that of an older version is the same.
func (r *Results) live(ctx context.Context, task *v1alpha1.McpTask) ([]byte, error) {
	stored, err := r.stored(ctx, task)
	if err != nil || stored.Status.Result == nil || stored.Status.Result.Inline == nil {
		return nil, err
	}
	raw := stored.Status.Result.Inline.Raw
	r.store.keep(stored.UID, raw)
	return raw, nil
}

// stored is the task as the API server has it; ErrUnknown where it has it no more.
func (r *Results) stored(ctx context.Context, task *v1alpha1.McpTask) (*v1alpha1.McpTask, error) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	stored, err := r.api.Get(ctx, key)
	switch {
	case apierrors.IsNotFound(err) || err == nil && stored.UID != task.UID:
		return nil, ErrUnknown
	case err != nil:
		return nil, fmt.Errorf("reading task %s for its result: %w", key, err)
	}
	return stored, nil
}
