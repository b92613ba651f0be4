package erp

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Faults say how the ERP misbehaves. The same seed misbehaves in the same way towards each invoice, whatever else is going
// on, and never for ever: after two refusals in a row a request is served, and only the first payment of an invoice meets an
// accident. The zero value misbehaves never.
type Faults struct {
	// Seed makes the pattern.
	Seed uint64
	// Busy is the share of requests, from 0 to 1, that are answered with 503 before anything was done.
	Busy float64
	// Accidents says whether the first payment of each invoice meets an Accident.
	Accidents bool
	// Hang is how long a request hangs in an accident; longer than clients wait.
	Hang time.Duration
}

// maxBusy is how many 503 in a row one kind of request about one invoice gets.
const maxBusy = 2

// Accident is what happens to a payment beside being recorded, which its payer cannot tell apart from what it is not.
type Accident string

const (
	// NoAccident: it is recorded and answered.
	NoAccident Accident = "none"
	// AnsweredBusy: it is recorded and answered with 503.
	AnsweredBusy Accident = "answered 503"
	// CutOff: it is recorded and the connection is closed without an answer.
	CutOff Accident = "cut off"
	// AnsweredLate: it is recorded and answered after the payer has stopped waiting.
	AnsweredLate Accident = "answered late"
	// RecordedLate: it is recorded only after the payer has stopped waiting.
	RecordedLate Accident = "recorded late"
)

var accidents = []Accident{AnsweredBusy, CutOff, AnsweredLate, RecordedLate}

// pattern carries Faults out.
type pattern struct {
	Faults
	mu    sync.Mutex
	times map[string]int // requests so far
	row   map[string]int // 503 in a row so far
	paid  map[string]bool
}

func newPattern(f Faults) *pattern {
	return &pattern{Faults: f, times: map[string]int{}, row: map[string]int{}, paid: map[string]bool{}}
}

// busy says whether to answer a request of this kind with 503.
func (p *pattern) busy(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[kind]++
	if p.row[kind] < maxBusy && p.random(fmt.Sprint(kind, p.times[kind])).Float64() < p.Busy {
		p.row[kind]++
		return true
	}
	p.row[kind] = 0
	return false
}

// accident is what happens to a payment of the invoice.
func (p *pattern) accident(invoice string) Accident {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.Accidents || p.paid[invoice] {
		return NoAccident
	}
	p.paid[invoice] = true
	return accidents[p.random(invoice).IntN(len(accidents))]
}

// random is a source that depends on the seed and the text alone.
func (p *pattern) random(text string) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(text)) // a hash's Write gives no error
	return rand.New(rand.NewPCG(p.Seed, hash.Sum64()))
}
