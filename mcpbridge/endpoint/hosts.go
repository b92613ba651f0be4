package endpoint

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// hosts are the values of the Host header that are let in. A web page whose name was made to lead to the bridge (DNS
// rebinding) sends that name, so a name must be known. An address cannot be rebound and is always let in: that is how
// port-forwards, sidecars, probes of load balancers and node ports come.
type hosts struct {
	any bool
	// known names, in lower case. A name without a port is good with every port.
	known map[string]bool
}

// newHosts knows the public URL's host, localhost, and the given ones; * among these lets everything in.
func newHosts(publicURL string, allowed []string) hosts {
	h := hosts{known: map[string]bool{"localhost": true}}
	if public, err := url.Parse(publicURL); err == nil && public.Host != "" {
		h.known[strings.ToLower(public.Hostname())] = true
	}
	for _, host := range allowed {
		h.any = h.any || host == "*"
		h.known[strings.ToLower(host)] = true
	}
	return h
}

// allow says whether a Host header is let in.
func (h hosts) allow(host string) bool {
	if h.any {
		return true
	}
	host = strings.ToLower(host)
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	// A dot at the end makes a name absolute, and no other.
	return h.known[host] || h.known[strings.TrimSuffix(name, ".")]
}
