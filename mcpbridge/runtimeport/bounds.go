package runtimeport

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/mcpbridge/limits"
)

const (
	// podRate and podBurst bound the requests of one Pod, for each second.
	podRate, podBurst = 10, 30
	// refusalRate and refusalBurst bound how often one address may try what is refused: each try may cost the API server
	// a review of a token. Those whom nothing is refused are not held up, however many share an address.
	refusalRate, refusalBurst = 5, 20
)

// bounds keep one caller from taking what all need.
type bounds struct {
	pods      *limits.Buckets[types.UID]
	addresses *limits.Buckets[string]
}

func newBounds() *bounds {
	return &bounds{pods: limits.NewBuckets[types.UID](podRate, podBurst), addresses: limits.NewBuckets[string](refusalRate, refusalBurst)}
}

// allows counts a request of a Pod.
func (b *bounds) allows(pod types.UID) bool { return b.pods.Take(pod) == 0 }

// tolerates says whether an address may still try.
func (b *bounds) tolerates(address string) bool { return !b.addresses.Empty(address) }

// refused counts a try that was refused.
func (b *bounds) refused(address string) { b.addresses.Take(address) }
