package controllers

import (
	"testing"
	"time"
)

func TestANodeThatDoesNotAnswerHoldsUpFewTasks(t *testing.T) {
	var r readings
	var done []func()
	take := func(node string, at time.Duration) bool {
		d, ok := r.begin(node, noon.Add(at))
		if ok {
			done = append(done, d)
		}
		return ok
	}
	for i := range readingsOfNode {
		if !take("bad", 0) {
			t.Fatalf("there is no place for reading %d", i)
		}
	}
	if take("bad", 0) || !take("good", 0) {
		t.Error("a full node has room, or another one has none")
	}
	for _, d := range done[slowReadings:] {
		d()
	}
	if !take("bad", slowReading) {
		t.Error("quick readings hold one up")
	}
	if take("bad", slowReading+1) || !take("good", slowReading+1) {
		t.Error("slow readings of a node hold up none of it, or another one's")
	}
	for _, d := range done {
		d()
	}
	if len(r.of) != 0 {
		t.Errorf("left: %v", r.of)
	}
}
