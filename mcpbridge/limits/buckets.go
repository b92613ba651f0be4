package limits

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// maxBuckets bounds the memory: beyond it the bucket goes that was not used for the longest time.
	maxBuckets = 4096
	// bucketLife is how long a bucket is kept; each is full again long before.
	bucketLife = time.Hour
)

// Buckets are token buckets, one for each key.
type Buckets[K comparable] struct {
	perSecond rate.Limit
	burst     int

	mu    sync.Mutex
	known *cache.LRUExpireCache // K → *rate.Limiter
}

// NewBuckets makes buckets that hold burst tokens and get perSecond new ones.
func NewBuckets[K comparable](perSecond float64, burst int64) *Buckets[K] {
	return &Buckets[K]{perSecond: rate.Limit(perSecond), burst: int(burst), known: cache.NewLRUExpireCache(maxBuckets)}
}

// Take takes a token and returns 0; or it takes none and returns how long it is until there is one.
func (b *Buckets[K]) Take(key K) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now() // under the lock: a limiter whose time goes back gives the time between twice
	reservation := b.of(key).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// Empty says whether there is no token.
func (b *Buckets[K]) Empty(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(key).TokensAt(time.Now()) < 1
}

// of is the bucket of a key. The lock is held.
func (b *Buckets[K]) of(key K) *rate.Limiter {
	if known, ok := b.known.Get(key); ok {
		return known.(*rate.Limiter)
	}
	limiter := rate.NewLimiter(b.perSecond, b.burst)
	b.known.Add(key, limiter, bucketLife)
	return limiter
}
