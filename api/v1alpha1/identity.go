package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is the value of the label mcptask.dev/owner for this caller: 128 bits of SHA-256 over issuer and subject.
func (i Identity) Hash() string {
	sum := sha256.Sum256([]byte(i.Issuer + "\x00" + i.Subject))
	return hex.EncodeToString(sum[:16])
}
