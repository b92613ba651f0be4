package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// keySet is what the provider is given: the private key that it signs with, and the public ones that it publishes.
type keySet struct {
	Sign    jose.JSONWebKey   `json:"sign"`
	Publish []jose.JSONWebKey `json:"publish"`
}

// takeKeys replaces the keys with those of the body.
func (s *storage) takeKeys(w http.ResponseWriter, r *http.Request) {
	var keys keySet
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&keys)
	if err == nil && (!keys.Sign.Valid() || keys.Sign.IsPublic()) {
		err = errors.New("sign must be a private key")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
	w.WriteHeader(http.StatusNoContent)
}

// signing is the private key, as the library asks for it.
type signing struct{ jose.JSONWebKey }

func (k signing) SignatureAlgorithm() jose.SignatureAlgorithm {
	return jose.SignatureAlgorithm(k.Algorithm)
}
func (k signing) Key() any   { return k.JSONWebKey.Key }
func (k signing) ID() string { return k.KeyID }

// published is a public key, as the library asks for it.
type published struct{ jose.JSONWebKey }

func (k published) Algorithm() jose.SignatureAlgorithm {
	return jose.SignatureAlgorithm(k.JSONWebKey.Algorithm)
}
func (k published) Key() any    { return k.JSONWebKey.Key }
func (k published) ID() string  { return k.KeyID }
func (k published) Use() string { return k.JSONWebKey.Use }

// SigningKey implements op.AuthStorage.
func (s *storage) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys.Sign.Key == nil {
		return nil, errors.New("no key was given yet")
	}
	return signing{s.keys.Sign}, nil
}

// SignatureAlgorithms implements op.AuthStorage.
func (s *storage) SignatureAlgorithms(ctx context.Context) ([]jose.SignatureAlgorithm, error) {
	key, err := s.SigningKey(ctx)
	if err != nil {
		return nil, err
	}
	return []jose.SignatureAlgorithm{key.SignatureAlgorithm()}, nil
}

// KeySet implements op.AuthStorage.
func (s *storage) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []op.Key
	for _, key := range s.keys.Publish {
		keys = append(keys, published{key})
	}
	return keys, nil
}
