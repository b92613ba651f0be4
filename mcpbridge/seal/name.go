package seal

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// TaskNames are the names that a task may have which is made of these parts, one for each key: the first is the one to
// give it, the others may have been given before the keys were rotated. Nobody without the keys can tell them.
func (k *Keys) TaskNames(parts ...string) []string {
	var text []byte
	for _, part := range parts { // with their lengths, so that no two lists of parts read the same
		text = binary.BigEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	var names []string
	for _, key := range k.all() {
		names = append(names, taskName(mac(key, "task name", text)))
	}
	return names
}

var alphabet = base32.StdEncoding.WithPadding(base32.NoPadding)

// taskName gives a hash the shape of a task's name.
func taskName(hash []byte) string {
	letter := 'a' + rune(binary.BigEndian.Uint32(hash[sha256.Size-4:])%26)
	return string(letter) + strings.ToLower(alphabet.EncodeToString(hash[:16]))[:25]
}
