package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// lifetime of tokens.
const lifetime = time.Hour

// storage is what the library asks its application for. Nothing outlives the process.
type storage struct {
	mu       sync.Mutex
	keys     keySet
	requests map[string]*request // by their ids
	codes    map[string]string   // of requests, by the code that was given for them
}

var _ op.Storage = (*storage)(nil)

func newStorage() *storage {
	return &storage{requests: map[string]*request{}, codes: map[string]string{}}
}

// CreateAuthRequest implements op.AuthStorage.
func (s *storage) CreateAuthRequest(ctx context.Context, asked *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	resource, _ := ctx.Value(resourceKey{}).(string)
	r := &request{AuthRequest: *asked, id: rand.Text(), resource: resource, at: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.id] = r
	return r, nil
}

// login says who the person is who makes a request.
func (s *storage) login(id, user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[id]
	if !ok || user == "" {
		return errors.New("the parameters request and user are needed")
	}
	r.user = user
	return nil
}

// AuthRequestByID implements op.AuthStorage.
func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.requests[id]; ok {
		return r, nil
	}
	return nil, errors.New("no such request")
}

// AuthRequestByCode implements op.AuthStorage. A code is good once.
func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id := s.codes[code]
	delete(s.codes, code)
	s.mu.Unlock()
	return s.AuthRequestByID(ctx, id)
}

// SaveAuthCode implements op.AuthStorage.
func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

// DeleteAuthRequest implements op.AuthStorage.
func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	return nil
}

// CreateAccessToken implements op.AuthStorage.
func (s *storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	return rand.Text(), time.Now().Add(lifetime), nil
}

// GetPrivateClaimsFromRequest implements op.CanGetPrivateClaimsFromRequest: the scopes and the client (RFC 9068, 2.2).
func (s *storage) GetPrivateClaimsFromRequest(_ context.Context, asked op.TokenRequest, _ []string) (map[string]any, error) {
	claims := map[string]any{"scope": strings.Join(asked.GetScopes(), " ")}
	if r, ok := asked.(*request); ok {
		claims["azp"] = r.ClientID
	}
	return claims, nil
}

// GetClientByClientID implements op.OPStorage: any id is one.
func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	return client(id), nil
}

// Health implements op.Storage.
func (s *storage) Health(ctx context.Context) error {
	_, err := s.SigningKey(ctx)
	return err
}

// What the library has beyond that is not offered.

var errNotOffered = errors.New("this provider does not offer that")

func (s *storage) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, errNotOffered
}

func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, op.ErrInvalidRefreshToken
}

func (s *storage) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

func (s *storage) TerminateSession(context.Context, string, string) error { return errNotOffered }

func (s *storage) RevokeToken(context.Context, string, string, string) *oidc.Error {
	return oidc.ErrInvalidRequest()
}

func (s *storage) AuthorizeClientIDSecret(context.Context, string, string) error {
	return errNotOffered
}

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (s *storage) SetUserinfoFromToken(context.Context, *oidc.UserInfo, string, string, string) error {
	return errNotOffered
}

func (s *storage) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errNotOffered
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errNotOffered
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errNotOffered
}
