package endpoint

import (
	"net/http"
	"net/url"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// wellKnown is where the metadata of a protected resource is, before the path of the resource (RFC 9728, 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// serveMetadata tells clients, each endpoint for itself, where they get tokens for it (2026-07-28, Authorization Server
// Discovery; RFC 9728). Without issuers there is nothing to tell: then there is no metadata.
func (e *Endpoint) serveMetadata() {
	if len(e.AuthorizationServers) == 0 {
		return
	}
	paths := []string{wellKnown}
	if prefix := e.publicPath(); prefix != "" {
		paths = append(paths, wellKnown+prefix) // a proxy may cut the path of the public URL off, or not
	}
	for _, path := range paths {
		e.mux.HandleFunc(path+"/mcp/{namespace}", func(w http.ResponseWriter, r *http.Request) {
			e.describe(w, r, r.PathValue("namespace"), "/mcp/"+r.PathValue("namespace"))
		})
		if e.DefaultNamespace != "" {
			e.mux.HandleFunc(path+"/mcp", func(w http.ResponseWriter, r *http.Request) {
				e.describe(w, r, e.DefaultNamespace, "/mcp")
			})
		}
	}
}

// describe answers with the metadata of an endpoint. It is for everybody, web pages included, and says the same of a
// namespace that does not exist.
func (e *Endpoint) describe(w http.ResponseWriter, r *http.Request, namespace, path string) {
	if !e.served(namespace) || !e.hosts.allow(r.Host) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               e.PublicURL + path,
		AuthorizationServers:   e.AuthorizationServers,
		ScopesSupported:        e.Scopes,
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "Tools of the namespace " + namespace,
	}).ServeHTTP(w, r)
}

// metadataURL is where the metadata of the endpoint at a path is.
func (e *Endpoint) metadataURL(path string) string {
	u, err := url.Parse(e.PublicURL)
	if err != nil { // it was checked at the start
		return ""
	}
	return u.Scheme + "://" + u.Host + wellKnown + u.Path + path
}

func (e *Endpoint) publicPath() string {
	u, err := url.Parse(e.PublicURL)
	if err != nil { // it was checked at the start
		return ""
	}
	return u.Path
}
