package endpoint

import (
	"net/http"
	"net/url"
	"path"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// serveNothing answers for addresses at which there is nothing.
func serveNothing(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, http: r, request: &wire.Request{}, era: eraOf(r)}
	x.fail(status(http.StatusNotFound, "there is nothing at this address: the tools of a namespace are at /mcp/NAMESPACE"))
}

// canonical says whether a path is written in the one way in which the mux compares it.
func canonical(p string) bool {
	return p == "" || path.Clean(p) == p || path.Clean(p)+"/" == p
}

// newOrigins lets browsers in whose page is of the same host as the request, or of the public URL's: a proxy may send
// another Host on than it was sent.
func newOrigins(publicURL string) *http.CrossOriginProtection {
	origins := http.NewCrossOriginProtection()
	if public, err := url.Parse(publicURL); err == nil && public.Host != "" {
		_ = origins.AddTrustedOrigin(public.Scheme + "://" + public.Host) // a scheme and a host are an origin
	}
	return origins
}
