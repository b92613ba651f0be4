// Package seal protects what the bridge hands out and gets back: session ids, the state of multi round-trip requests, and
// the names of tasks that are made of a caller's idempotency key. Every replica has the same keys, so that any of them
// can open what another has sealed.
package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// minKeyBytes is the shortest key that is accepted: as long as the hash.
const minKeyBytes = 32

// reloadAfter is how long keys are used before the folder is looked at again. A mounted Secret takes about a minute to
// change anyhow.
const reloadAfter = 10 * time.Second

// Keys are the secrets that all replicas share, the newest first. The newest seals; all of them open.
type Keys struct {
	folder string

	mu     sync.Mutex
	keys   [][]byte
	loaded time.Time
	now    func() time.Time
}

// NewKeys takes keys as they are, the newest first.
func NewKeys(keys ...[]byte) (*Keys, error) {
	if err := check(keys); err != nil {
		return nil, err
	}
	return &Keys{keys: keys, now: time.Now}, nil
}

// LoadKeys reads the keys from the files of a folder, for instance a mounted Secret. The file whose name sorts last holds
// the newest. The folder is read again while the program runs: to rotate, add a file, and remove the old one once
// nothing that it sealed is in use.
func LoadKeys(folder string) (*Keys, error) {
	k := &Keys{folder: folder, now: time.Now}
	var err error
	if k.keys, err = read(folder); err != nil {
		return nil, err
	}
	k.loaded = k.now()
	return k, nil
}

func read(folder string) ([][]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") { // a mounted Secret keeps its versions in hidden folders
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	var keys [][]byte
	for _, name := range names {
		key, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // in a folder that whoever installs the bridge names
		if err != nil {
			return nil, fmt.Errorf("reading the keys: %w", err)
		}
		keys = append(keys, key)
	}
	if err := check(keys); err != nil {
		return nil, fmt.Errorf("the keys in %s: %w", folder, err)
	}
	return keys, nil
}

func check(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("there is none")
	}
	for _, key := range keys {
		if len(key) < minKeyBytes {
			return fmt.Errorf("one has %d bytes; at least %d are needed", len(key), minKeyBytes)
		}
	}
	return nil
}

// all are the keys in force. A folder that cannot be read, or that holds no good keys, leaves the last ones in force.
func (k *Keys) all() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); k.folder != "" && now.Sub(k.loaded) >= reloadAfter {
		k.loaded = now
		if keys, err := read(k.folder); err == nil {
			k.keys = keys
		}
	}
	return k.keys
}

// mac is the tag of a text under a key, for one purpose: what was made for one is nothing for another.
func mac(key []byte, purpose string, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(purpose))
	h.Write([]byte{0})
	h.Write(text)
	return h.Sum(nil)
}
