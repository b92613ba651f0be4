package result

import (
	"strings"
	"testing"
)

// endless has no end, as a device may have none.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestCount(t *testing.T) {
	size, err := Count(5, strings.NewReader("123"))
	if err != nil || size != (Size{Bytes: 8}) || size.String() != "8 bytes" {
		t.Errorf("%v, %v", size, err)
	}
	size, err = Count(5, endless{})
	if err != nil || size != (Size{Bytes: maxCounted, More: true}) || size.String() != "more than 1073741824 bytes" {
		t.Errorf("%v, %v", size, err)
	}
}
