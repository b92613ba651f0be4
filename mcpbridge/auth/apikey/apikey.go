// Package apikey identifies callers by API keys that an operator gave them.
package apikey

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
)

const (
	// IssuerName is the issuer of callers that a key identified.
	IssuerName = "apikey"
	// prefix comes before the names of callers and groups in the cluster's RBAC.
	prefix = "apikey:"
	// minKey is the shortest key in bytes, without its prefix: 32 characters of base64 are 192 random bits.
	minKey = 32
	// reloadAfter is how long keys are used before the folder is looked at again. A mounted Secret takes about a minute to
	// change anyhow.
	reloadAfter = 10 * time.Second
	// everywhere is the entry of namespaces that stands for all.
	everywhere = "*"
)

// entry is one key, as a file of the folder describes it.
type entry struct {
	// SHA256 is the hash of the key, in hex. A key is random, so its hash needs no salt.
	SHA256 string `json:"sha256"`
	// Subject is the caller's name, and Groups are its groups. In the cluster's RBAC each is called apikey:NAME.
	Subject string   `json:"subject"`
	Groups  []string `json:"groups,omitempty"`
	// Namespaces at whose endpoints the key is good; "*" is all.
	Namespaces []string `json:"namespaces"`

	hash [sha256.Size]byte
}

// Keys are the API keys in the files of a folder, for instance a mounted Secret.
type Keys struct {
	folder string
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	entries []entry
	loaded  time.Time
}

// Load reads the keys of a folder, one a file. The folder is read again while the program runs. A file that cannot be used
// is named in the log, and the others hold.
func Load(folder string, log *slog.Logger) (*Keys, error) {
	k := &Keys{folder: folder, log: log, now: time.Now}
	entries, faults, err := read(folder)
	if err != nil {
		return nil, err
	}
	k.take(entries, faults)
	return k, nil
}

// Authenticate implements auth.Authenticator.
func (k *Keys) Authenticate(_ context.Context, r auth.Request) (auth.Principal, error) {
	key, ok := auth.Bearer(r.Header)
	if !ok {
		return auth.Principal{}, auth.ErrNoCredentials
	}
	if len(key) < len(auth.KeyPrefix)+minKey {
		return auth.Principal{}, auth.Refused("the key is too short for one")
	}
	hash := sha256.Sum256([]byte(key))
	var found *entry
	entries := k.current()
	for i := range entries { // all of them: how long it takes says nothing
		if subtle.ConstantTimeCompare(hash[:], entries[i].hash[:]) == 1 {
			found = &entries[i]
		}
	}
	switch {
	case found == nil:
		return auth.Principal{}, auth.Refused("the key is not known")
	case !slices.Contains(found.Namespaces, everywhere) && !slices.Contains(found.Namespaces, r.Namespace):
		return auth.Principal{}, auth.Refused("the key is not for this namespace")
	}
	principal := auth.Principal{Identity: v1alpha1.Identity{Issuer: IssuerName, Subject: found.Subject}, User: prefix + found.Subject}
	for _, group := range found.Groups {
		principal.Groups = append(principal.Groups, prefix+group)
	}
	return principal, nil
}

// current are the keys in force. A folder that cannot be read leaves the last ones in force.
func (k *Keys) current() []entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); now.Sub(k.loaded) >= reloadAfter {
		entries, faults, err := read(k.folder)
		if err != nil {
			k.log.Error("the API keys cannot be read anew", "error", err)
			k.loaded = now
		} else {
			k.take(entries, faults)
		}
	}
	return k.entries
}

func (k *Keys) take(entries []entry, faults []error) {
	k.entries, k.loaded = entries, k.now()
	if err := errors.Join(faults...); err != nil {
		k.log.Error("some API keys are left out", "error", err)
	}
}

// read returns the keys of a folder, and what is wrong with its other files.
func read(folder string) (entries []entry, faults []error, err error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	count := map[[sha256.Size]byte]int{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") { // a mounted Secret keeps its versions in hidden folders
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, file.Name())) //nolint:gosec // in a folder that whoever installs the bridge names
		if err != nil {
			return nil, nil, fmt.Errorf("reading the API keys: %w", err)
		}
		e, err := parse(raw)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", file.Name(), err))
			continue
		}
		count[e.hash]++
		entries = append(entries, e)
	}
	return slices.DeleteFunc(entries, func(e entry) bool {
		if count[e.hash] > 1 {
			faults = append(faults, fmt.Errorf("the key of %s is that of another entry too: neither holds", e.Subject))
			return true
		}
		return false
	}), faults, nil
}

// parse reads one file. Its errors do not repeat what the file holds: it might be a key.
func parse(raw []byte) (entry, error) {
	var e entry
	if yaml.UnmarshalStrict(raw, &e) != nil {
		return entry{}, errors.New("must be YAML with sha256, subject, namespaces and perhaps groups")
	}
	hash, err := hex.DecodeString(e.SHA256)
	if err != nil || len(hash) != sha256.Size {
		return entry{}, errors.New("sha256 must be the SHA-256 of the key, 64 hexadecimal digits")
	}
	copy(e.hash[:], hash)
	if strings.TrimSpace(e.Subject) == "" || len(e.Subject) > auth.MaxSubject {
		return entry{}, errors.New("subject must name the caller")
	}
	if len(e.Namespaces) == 0 {
		return entry{}, errors.New(`namespaces must say where the key is good; ["*"] is everywhere`)
	}
	return e, nil
}
