package result

import (
	"fmt"
	"io"
	"os"
)

// maxCounted bounds the reading of what is only counted: a device may have no end.
const maxCounted = 1 << 30

// Size is the size of what a program hands over.
type Size struct {
	// Bytes that there are, or that were counted.
	Bytes int64
	// More says that there are more than were counted.
	More bool
}

func (s Size) String() string {
	if s.More {
		return fmt.Sprintf("more than %d bytes", s.Bytes)
	}
	return fmt.Sprintf("%d bytes", s.Bytes)
}

// Count is the size of what was read already and of what is still to come from in.
func Count(read int64, in io.Reader) (Size, error) {
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return Size{Bytes: max(info.Size(), read)}, nil
		}
	}
	rest, err := io.Copy(io.Discard, io.LimitReader(in, maxCounted-read+1))
	if total := read + rest; total <= maxCounted {
		return Size{Bytes: total}, err
	}
	return Size{Bytes: maxCounted, More: true}, err
}
