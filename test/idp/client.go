package main

import (
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client is an OAuth client, of any id: a native application, which has no secret and proves itself with PKCE.
type client string

func (c client) GetID() string                              { return string(c) }
func (client) RedirectURIs() []string                       { return []string{"http://127.0.0.1/callback"} }
func (client) PostLogoutRedirectURIs() []string             { return nil }
func (client) ApplicationType() op.ApplicationType          { return op.ApplicationTypeNative }
func (client) AuthMethod() oidc.AuthMethod                  { return oidc.AuthMethodNone }
func (client) ResponseTypes() []oidc.ResponseType           { return []oidc.ResponseType{oidc.ResponseTypeCode} }
func (client) GrantTypes() []oidc.GrantType                 { return []oidc.GrantType{oidc.GrantTypeCode} }
func (client) LoginURL(request string) string               { return "/login?request=" + request }
func (client) AccessTokenType() op.AccessTokenType          { return op.AccessTokenTypeJWT }
func (client) IDTokenLifetime() time.Duration               { return lifetime }
func (client) DevMode() bool                                { return false }
func (client) IDTokenUserinfoClaimsAssertion() bool         { return false }
func (client) ClockSkew() time.Duration                     { return 0 }
func (client) IsScopeAllowed(scope string) bool             { return scope == "mcp:tools" }
func (client) RestrictAdditionalIdTokenScopes() scopeFilter { return slices.Clone[[]string] }
func (client) RestrictAdditionalAccessTokenScopes() scopeFilter {
	return slices.Clone[[]string]
}

type scopeFilter = func([]string) []string
