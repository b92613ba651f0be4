package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

const (
	// writtenFor is how long a write is remembered: longer than any watch is behind that is not broken.
	writtenFor = 30 * time.Second
	// maxWritten bounds the memory.
	maxWritten = 4096
)

// written remembers the versions of tasks that this controller has written, so that it asks the API server nothing on the word of a
// watch that has yet to show them. The zero value is ready for use.
type written struct {
	once     sync.Once
	versions *cache.LRUExpireCache // types.UID → resource version
}

func (w *written) known() *cache.LRUExpireCache {
	w.once.Do(func() { w.versions = cache.NewLRUExpireCache(maxWritten) })
	return w.versions
}

// note remembers a task as it was stored.
func (w *written) note(task *v1alpha1.McpTask) {
	w.known().Add(task.UID, task.ResourceVersion, writtenFor)
}

// behind says whether this is an older version than was written.
func (w *written) behind(task *v1alpha1.McpTask) bool {
	latest, ok := w.known().Get(task.UID)
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(task.ResourceVersion, latest.(string))
	return err == nil && order < 0
}
