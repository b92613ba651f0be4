package tasks

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// hub tells those who wait for tasks which of them changed.
type hub struct {
	mu sync.Mutex
	// watches of a task, with the place that it has among the watch's keys.
	watches map[types.NamespacedName]map[*Watch]int
}

func newHub() *hub {
	return &hub{watches: map[types.NamespacedName]map[*Watch]int{}}
}

// Watch remembers which of some tasks have changed. A change costs whoever makes it a mark in a set, however slow the
// reader is: several changes of one task before the reader looks are one.
type Watch struct {
	hub     *hub
	keys    []types.NamespacedName
	changed chan struct{}

	mu     sync.Mutex
	marked []bool // by the place of the key
	queue  []int  // places of the marked keys, the oldest mark first
}

func (h *hub) watch(keys []types.NamespacedName) *Watch {
	w := &Watch{hub: h, keys: keys, changed: make(chan struct{}, 1), marked: make([]bool, len(keys))}
	h.mu.Lock()
	for place, key := range keys {
		if h.watches[key] == nil {
			h.watches[key] = map[*Watch]int{}
		}
		h.watches[key][w] = place
	}
	h.mu.Unlock()
	return w
}

// Changed has a value when Take has something new to return.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Take returns the tasks that have changed since they were last taken, the oldest change first.
func (w *Watch) Take() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := make([]types.NamespacedName, len(w.queue))
	for i, place := range w.queue {
		taken[i] = w.keys[place]
		w.marked[place] = false
	}
	w.queue = w.queue[:0]
	return taken
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, key := range w.keys {
		delete(w.hub.watches[key], w)
		if len(w.hub.watches[key]) == 0 {
			delete(w.hub.watches, key)
		}
	}
}

func (w *Watch) mark(place int) {
	w.mu.Lock()
	if !w.marked[place] {
		w.marked[place] = true
		w.queue = append(w.queue, place)
	}
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default: // the reader has yet to look at the last change
	}
}

func (h *hub) publish(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w, place := range h.watches[key] {
		w.mark(place)
	}
}
