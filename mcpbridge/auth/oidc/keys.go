package oidc

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/mcptask/mcptask/mcpbridge/auth"
)

const (
	// renewAfter is how long keys are used before the issuer is asked for them again. Nobody waits for that.
	renewAfter = 5 * time.Minute
	// refreshAfter is how long keys are used without that: a key that the issuer takes back is good for so long, also where
	// no token came meanwhile.
	refreshAfter = 10 * time.Minute
	// usableFor is how long keys are used of an issuer that does not answer.
	usableFor = 24 * time.Hour
	// retryAfter is the least time between two requests for keys, whatever callers send.
	retryAfter = 10 * time.Second
	// minRSA is the shortest accepted RSA key, in bits (RFC 7518, 3.3).
	minRSA = 2048
)

// keys are the public keys of one issuer, as they were last read.
type keys struct {
	read func(context.Context) (*jose.JSONWebKeySet, error)
	now  func() time.Time
	log  *slog.Logger

	flight singleflight.Group

	mu      sync.Mutex
	set     []jose.JSONWebKey
	fetched time.Time // when set was read
	tried   time.Time // when the issuer was last asked
	failure error     // why the last try brought nothing
}

// find returns the key that a token names. A key that is not known is looked for at the issuer, unless that was just done.
func (k *keys) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) (*jose.JSONWebKey, error) {
	key, age, failure := k.known(id, algorithm)
	if key != nil && age < renewAfter {
		return key, nil
	}
	refreshed := k.refresh()
	if key != nil && (age < refreshAfter || failure != nil && age < usableFor) {
		return key, nil // the new ones are for the next token
	}
	select {
	case <-refreshed:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, ctx.Err())
	}
	key, age, failure = k.known(id, algorithm)
	switch {
	case key != nil && age < usableFor:
		return key, nil
	case failure != nil:
		return nil, fmt.Errorf("%w: reading the issuer's keys: %w", auth.ErrUnavailable, failure)
	}
	return nil, auth.Refused("the token is signed with a key that its issuer does not publish")
}

// known looks for a key among those that were read. A token without a key id is taken for signed with the only key. The
// failure is that of the last try, unless it is so long ago that it says nothing about the issuer any more.
func (k *keys) known(id string, algorithm jose.SignatureAlgorithm) (key *jose.JSONWebKey, age time.Duration, failure error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	age = now.Sub(k.fetched)
	fitting := 0
	for i := range k.set {
		if (id == "" || k.set[i].KeyID == id) && fits(&k.set[i], algorithm) {
			key = &k.set[i]
			fitting++
		}
	}
	if fitting != 1 {
		key = nil
	}
	if now.Sub(k.tried) < refreshAfter {
		failure = k.failure
	}
	return key, age, failure
}

// fits says whether a key may have made a signature of this kind.
func fits(key *jose.JSONWebKey, algorithm jose.SignatureAlgorithm) bool {
	if !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != string(algorithm) {
		return false
	}
	public, isRSA := key.Key.(*rsa.PublicKey)
	return !isRSA || public.N.BitLen() >= minRSA
}

// refresh asks the issuer for its keys, unless that was just done, and closes what it returns when that is over. All who
// ask meanwhile wait for the same answer.
func (k *keys) refresh() <-chan singleflight.Result {
	return k.flight.DoChan("", func() (any, error) {
		k.mu.Lock()
		now := k.now()
		early := now.Sub(k.tried) < retryAfter
		if !early {
			k.tried = now
		}
		k.mu.Unlock()
		if early {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*fetchTimeout)
		defer cancel()
		set, err := k.read(ctx)
		if err == nil && len(set.Keys) == 0 {
			err = errors.New("there are none")
		}
		if err != nil {
			k.log.Warn("the keys of an issuer cannot be read; tokens that are signed with other keys than those known are not accepted meanwhile", "error", err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.failure = err
		if err == nil {
			k.set, k.fetched = set.Keys, now
		}
		return nil, nil
	})
}
