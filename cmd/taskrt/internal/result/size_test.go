package result

import (
	"strings"
	"testing"
)

// endless has no end, as a device may have none.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestCount(t *testing.T) {
	size, err := Count([]byte("01234"), strings.NewReader("567"))
	const hash = "924592b9b103f14f833faafb67f480691f01988aa457c0061769f58cd47311bc"
	if err != nil || size != (Size{Bytes: 8, SHA256: hash}) || size.String() != "8 bytes, SHA-256 "+hash {
		t.Errorf("%v, %v", size, err)
	}
	size, err = Count([]byte("01234"), endless{})
	if err != nil || size != (Size{Bytes: maxCounted, More: true}) || size.String() != "more than 1073741824 bytes" {
		t.Errorf("%v, %v", size, err)
	}
}
