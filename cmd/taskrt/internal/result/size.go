package result

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// maxCounted bounds the reading of what is only counted: a device may have no end.
const maxCounted = 1 << 30

// Size is the size of what a program hands over.
type Size struct {
	// Bytes that there are, or that were counted.
	Bytes int64
	// More says that there are more than were counted.
	More bool
	// SHA256 of all of it, in hex.
	SHA256 string
}

func (s Size) String() string {
	if s.More {
		return fmt.Sprintf("more than %d bytes", s.Bytes)
	}
	return fmt.Sprintf("%d bytes, SHA-256 %s", s.Bytes, s.SHA256)
}

// source is what a program hands over, counted while it is read.
type source struct {
	in  io.Reader
	n   int64
	sum hash.Hash
	// text is the same as UTF-8: other bytes become U+FFFD.
	text io.Reader
}

func newSource(in io.Reader) *source {
	s := &source{in: in, sum: sha256.New()}
	s.text = transform.NewReader(s, runes.ReplaceIllFormed())
	return s
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.n += int64(n)
	s.sum.Write(p[:n])
	return n, err
}

// hash of what was read.
func (s *source) hash() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// size reads what is left.
func (s *source) size() (Size, error) {
	_, err := io.Copy(io.Discard, io.LimitReader(s, max(maxCounted-s.n, 0)+1))
	if s.n > maxCounted {
		return Size{Bytes: maxCounted, More: true}, err
	}
	return Size{Bytes: s.n, SHA256: s.hash()}, err
}

// Count is the size of what was read already and of what is still to come from in.
func Count(read []byte, in io.Reader) (Size, error) {
	s := newSource(in)
	s.n = int64(len(read))
	s.sum.Write(read)
	return s.size()
}
