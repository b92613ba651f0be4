package tasks

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// hub wakes those who wait for a task to change.
type hub struct {
	mu          sync.Mutex
	subscribers map[types.NamespacedName]map[chan struct{}]struct{}
}

func newHub() *hub {
	return &hub{subscribers: map[types.NamespacedName]map[chan struct{}]struct{}{}}
}

func (h *hub) subscribe(key types.NamespacedName) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers[key] == nil {
		h.subscribers[key] = map[chan struct{}]struct{}{}
	}
	h.subscribers[key][changed] = struct{}{}
	return changed, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subscribers[key], changed)
		if len(h.subscribers[key]) == 0 {
			delete(h.subscribers, key)
		}
	}
}

func (h *hub) publish(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for changed := range h.subscribers[key] {
		select {
		case changed <- struct{}{}:
		default: // it has yet to look at the last change
		}
	}
}
