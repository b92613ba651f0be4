package tasks

import (
	"container/list"
	"sync"
)

// lru keeps values as long as they have no more than so many bytes together, and lets go first of what nobody asked for the
// longest. One that alone is larger is not kept.
type lru[K comparable, V any] struct {
	most int64

	mu    sync.Mutex
	size  int64
	order *list.List // of *kept, the one that was asked for last in front
	items map[K]*list.Element
}

type kept[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

func newLRU[K comparable, V any](most int64) *lru[K, V] {
	return &lru[K, V]{most: most, order: list.New(), items: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.items[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(item)
	return item.Value.(*kept[K, V]).value, true
}

func (c *lru[K, V]) add(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item, ok := c.items[key]; ok {
		c.drop(item)
	}
	if size > c.most {
		return
	}
	c.items[key] = c.order.PushFront(&kept[K, V]{key, value, size})
	for c.size += size; c.size > c.most; {
		c.drop(c.order.Back())
	}
}

func (c *lru[K, V]) remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item, ok := c.items[key]; ok {
		c.drop(item)
	}
}

func (c *lru[K, V]) drop(item *list.Element) {
	k := c.order.Remove(item).(*kept[K, V])
	delete(c.items, k.key)
	c.size -= k.size
}
