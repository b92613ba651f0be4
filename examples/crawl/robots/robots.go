// Package robots reads robots.txt and answers whether a crawler may fetch a path (RFC 9309).
package robots

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/urlnorm"
)

// MaxSize is how much of a robots.txt is read, in bytes (RFC 9309, section 2.5: at least 500 KiB).
const MaxSize = 500 << 10

// Rules is what a robots.txt says to one crawler.
type Rules struct {
	rules []rule

	// CrawlDelay is the time asked for between two requests, 0 when none is. It is no part of RFC 9309, but widely used.
	CrawlDelay time.Duration
}

type rule struct {
	allow bool
	// parts is the pattern, cut at each "*".
	parts []string
	// toEnd says that the pattern ended in "$".
	toEnd bool
	// length decides between rules: the most octets win.
	length int
}

// AllowAll is what holds when a site has no robots.txt.
func AllowAll() *Rules { return &Rules{} }

// DisallowAll is what holds when a site's robots.txt cannot be had just now (RFC 9309, section 2.3.1.4).
func DisallowAll() *Rules { return &Rules{rules: []rule{newRule("/", false)}} }

// ProductToken is the part of a User-Agent header that robots.txt knows a crawler by: its leading letters, "-" and "_".
func ProductToken(userAgent string) string {
	end := strings.IndexFunc(userAgent, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-' || r == '_')
	})
	if end < 0 {
		return userAgent
	}
	return userAgent[:end]
}

// Parse reads a robots.txt for the crawler with this product token. Lines that make no sense are passed over, as the
// RFC asks. All groups for the token count together; only when there is none do the groups for "*" count.
func Parse(body []byte, token string) *Rules {
	var own, others group
	var addressed []*group
	inAgents := false

	for line := range strings.FieldsFuncSeq(strings.TrimPrefix(string(body), "\ufeff"), isLineEnd) {
		key, value, ok := keyValue(line)
		if !ok {
			continue
		}
		switch key {
		case "user-agent":
			if !inAgents {
				addressed = nil
			}
			inAgents = true
			if value == "*" {
				addressed = append(addressed, &others)
			} else if strings.EqualFold(ProductToken(value), token) {
				own.found = true
				addressed = append(addressed, &own)
			}
		case "allow", "disallow":
			inAgents = false
			if value != "" {
				for _, g := range addressed {
					g.rules = append(g.rules, newRule(value, key == "allow"))
				}
			}
		case "crawl-delay":
			inAgents = false
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || !(seconds >= 0) {
				continue
			}
			delay := time.Duration(math.Min(seconds, 24*60*60) * float64(time.Second))
			for _, g := range addressed {
				g.CrawlDelay = max(g.CrawlDelay, delay)
			}
		}
	}
	if own.found {
		return &own.Rules
	}
	return &others.Rules
}

// group gathers what is said to one crawler; found tells an empty group from none.
type group struct {
	Rules
	found bool
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

func keyValue(line string) (key, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	key, value, ok = strings.Cut(line, ":")
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), ok
}

func newRule(pattern string, allow bool) rule {
	pattern = urlnorm.Escapes(pattern)
	body, toEnd := strings.CutSuffix(pattern, "$")
	return rule{allow: allow, parts: strings.Split(body, "*"), toEnd: toEnd, length: len(pattern)}
}

// Allowed says whether a path, with its query if it has one, may be fetched. The longest matching rule decides; of two
// equally long ones, the one that allows.
func (r *Rules) Allowed(pathAndQuery string) bool {
	path := urlnorm.Escapes(pathAndQuery)
	if path == "/robots.txt" {
		return true
	}
	allowed, length := true, -1
	for _, rule := range r.rules {
		if rule.length < length || rule.length == length && !rule.allow || !rule.matches(path) {
			continue
		}
		allowed, length = rule.allow, rule.length
	}
	return allowed
}

func (r rule) matches(path string) bool {
	rest, ok := strings.CutPrefix(path, r.parts[0])
	if !ok {
		return false
	}
	last := len(r.parts) - 1
	for i, part := range r.parts[1:] {
		if r.toEnd && i+1 == last {
			return strings.HasSuffix(rest, part)
		}
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return !r.toEnd || rest == ""
}
