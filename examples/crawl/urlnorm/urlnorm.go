// Package urlnorm brings the URLs found on web pages into one spelling, so that the same page is recognised
// however a link to it is written (RFC 3986, section 6.2.2).
package urlnorm

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// MaxLength is the longest URL, in bytes, that Resolve accepts. Longer ones are nearly always a crawler trap.
const MaxLength = 4096

// ErrNotWeb is returned for a reference to something other than http or https: mailto, tel, javascript, data.
var ErrNotWeb = errors.New("not an http or https URL")

// ParseStart reads an absolute http or https URL given by a person. A URL with a user name or password is refused,
// because the URL is repeated in the output.
func ParseStart(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("must be an absolute http or https URL such as https://example.com/")
	}
	return Resolve(u, raw)
}

// Resolve turns a reference found on a page into an absolute URL in its one spelling: scheme and host in lower case,
// international host names in ASCII, no default port, no user name, no empty path, no dot segments, no fragment,
// and percent-encoding as Escapes leaves it.
func Resolve(base *url.URL, ref string) (*url.URL, error) {
	if len(ref) > MaxLength {
		return nil, fmt.Errorf("longer than %d bytes", MaxLength)
	}
	parsed, err := url.Parse(Escapes(trim(ref)))
	if err != nil {
		return nil, err
	}
	u := base.ResolveReference(parsed)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, ErrNotWeb
	}
	if u.Host, err = host(u); err != nil {
		return nil, err
	}
	u.User = nil
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	if len(u.String()) > MaxLength {
		return nil, fmt.Errorf("longer than %d bytes", MaxLength)
	}
	return u, nil
}

// Site is the part of a URL that bounds a crawl: scheme, host and port.
func Site(u *url.URL) string {
	return u.Scheme + "://" + u.Host
}

func host(u *url.URL) (string, error) {
	name, port := u.Hostname(), u.Port()
	if name == "" {
		return "", errors.New("no host")
	}
	if strings.Contains(name, ":") {
		name = "[" + strings.ToLower(name) + "]"
	} else {
		ascii, err := idna.ToASCII(strings.ToLower(name))
		if err != nil {
			return "", fmt.Errorf("host: %w", err)
		}
		name = ascii
	}
	if port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		return name, nil
	}
	return name + ":" + port, nil
}

// trim does what browsers do with an attribute's value: white space around it and line breaks within it are dropped.
func trim(ref string) string {
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(strings.Trim(ref, " \t\n\r\f"))
}

// Escapes gives percent-encoding one spelling: what needs no encoding has none, what needs it has it, and hexadecimal
// digits are upper case. A stray percent sign is encoded.
func Escapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			if v := unhex(s[i+1])<<4 | unhex(s[i+2]); isUnreserved(v) {
				b.WriteByte(v)
			} else {
				escape(&b, v)
			}
			i += 2
		case c != '%' && (isUnreserved(c) || strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0):
			b.WriteByte(c)
		default:
			escape(&b, c)
		}
	}
	return b.String()
}

func escape(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
