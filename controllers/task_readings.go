package controllers

import (
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// readingsOfNode is how many logs of one node are read at one time, and slowReadings how many that have taken longer than slowReading:
	// a node that does not answer holds up a part of the workers only, and those but once.
	readingsOfNode, slowReadings = 8, 2
	slowReading                  = time.Second
	// awaitReading is how soon a log is asked for again that has to wait for others of its node.
	awaitReading = time.Second
)

// errLogsBusy means that as many logs of the node are being read as may be.
var errLogsBusy = errors.New("as many logs of the node are being read as may be")

// readings are the logs that are being read, by node: when each was begun.
type readings struct {
	sync.Mutex
	of map[string][]time.Time
}

// begin takes a place for reading a log of the node, if there is one. done gives it back.
func (r *readings) begin(node string, now time.Time) (done func(), ok bool) {
	r.Lock()
	defer r.Unlock()
	slow := 0
	for _, begun := range r.of[node] {
		if now.Sub(begun) > slowReading {
			slow++
		}
	}
	if slow >= slowReadings || len(r.of[node]) >= readingsOfNode {
		return nil, false
	}
	if r.of == nil {
		r.of = map[string][]time.Time{}
	}
	r.of[node] = append(r.of[node], now)
	return func() {
		r.Lock()
		defer r.Unlock()
		left := r.of[node]
		if i := slices.Index(left, now); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		if r.of[node] = left; len(left) == 0 {
			delete(r.of, node)
		}
	}, true
}
