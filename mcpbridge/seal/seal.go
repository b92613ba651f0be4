package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrInvalid is the one answer for a text that was not sealed here, that was changed, and that has expired.
var ErrInvalid = errors.New("not sealed by this server, or no longer valid")

// maxSealedBytes bounds what is looked at: nothing sealed here is longer.
const maxSealedBytes = 256 << 10

type sealed struct {
	Expires int64           `json:"e"` // seconds since 1970
	Value   json.RawMessage `json:"v"`
}

// Seal writes a value so that Open recognises it, for one purpose and until life has passed. The text consists of
// characters that headers and URLs take; it can be read by whoever has it, but not changed.
func (k *Keys) Seal(purpose string, value any, life time.Duration) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	text, err := json.Marshal(sealed{Expires: k.now().Add(life).Unix(), Value: raw})
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	tag := mac(k.all()[0], purpose, text)
	return base64.RawURLEncoding.EncodeToString(append(tag, text...)), nil
}

// Open reads what Seal wrote for the same purpose into value; ErrInvalid for everything else.
func (k *Keys) Open(purpose, text string, value any) error {
	if len(text) > maxSealedBytes || strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= sha256.Size {
		return ErrInvalid
	}
	tag, content := raw[:sha256.Size], raw[sha256.Size:]
	genuine := false
	for _, key := range k.all() {
		genuine = hmac.Equal(tag, mac(key, purpose, content)) || genuine
	}
	if !genuine {
		return ErrInvalid
	}
	var s sealed
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&s); err != nil || k.now().Unix() >= s.Expires {
		return ErrInvalid
	}
	if err := json.Unmarshal(s.Value, value); err != nil {
		return ErrInvalid
	}
	return nil
}
