package limits

import (
	"context"
	"testing"
	"time"
)

func TestRoomsAreBoundedInAllAndForEach(t *testing.T) {
	r := NewRooms[string](8, 2)
	var leave []func()
	for _, key := range []string{"a", "b", "c", "d"} {
		left, err := r.Take(t.Context(), key, 5) // as much as one may have
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, left)
	}
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for _, key := range []string{"a", "e"} { // one has no room of its own left, the other finds none
		if _, err := r.Take(brief, key, 1); err == nil {
			t.Errorf("%s gets more than there is", key)
		}
	}
	for _, left := range leave {
		left()
	}
	if len(r.known) != 0 || !r.all.TryAcquire(8) {
		t.Errorf("%d keys are left", len(r.known))
	}
}
