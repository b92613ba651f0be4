package runtimeport

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// podRate and podBurst bound the requests of one Pod, for each second.
	podRate, podBurst = 10, 30
	// refusalRate and refusalBurst bound how often one address may try what is refused: each try may cost the API server
	// a review of a token. Those whom nothing is refused are not held up, however many share an address.
	refusalRate, refusalBurst = 5, 20
	// maxLimiters bounds the memory for each of them.
	maxLimiters = 4096
)

// bounds keep one caller from taking what all need.
type bounds struct {
	mu        sync.Mutex
	pods      *cache.LRUExpireCache // types.UID → *rate.Limiter
	addresses *cache.LRUExpireCache // string → *rate.Limiter
}

func newBounds() *bounds {
	return &bounds{pods: cache.NewLRUExpireCache(maxLimiters), addresses: cache.NewLRUExpireCache(maxLimiters)}
}

// allows counts a request of a Pod.
func (b *bounds) allows(pod types.UID) bool {
	return b.limiter(b.pods, pod, podRate, podBurst).Allow()
}

// tolerates says whether an address may still try.
func (b *bounds) tolerates(address string) bool {
	return b.limiter(b.addresses, address, refusalRate, refusalBurst).Tokens() >= 1
}

// refused counts a try that was refused.
func (b *bounds) refused(address string) {
	b.limiter(b.addresses, address, refusalRate, refusalBurst).Allow()
}

func (b *bounds) limiter(of *cache.LRUExpireCache, key any, perSecond rate.Limit, burst int) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := of.Get(key); ok {
		return known.(*rate.Limiter)
	}
	limiter := rate.NewLimiter(perSecond, burst)
	of.Add(key, limiter, time.Hour)
	return limiter
}
