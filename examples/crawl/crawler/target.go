package crawler

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
)

type state int

const (
	// waiting: known, not decided on yet.
	waiting state = iota
	// fetching: in the wave that is under way.
	fetching
	fetched
	// The others are never fetched.
	offsite
	disallowed
	overLimit
)

// target is one URL that the crawl knows of.
type target struct {
	url   string
	state state
	// queued says that the crawl will get to it, at this distance or the next.
	queued bool
	// order numbers the targets as they are fetched: by distance, then by URL.
	order int
	// hops is the least number of redirects in a row that led here.
	hops int

	// What fetching it gave; see answer.
	status   int
	failure  string
	redirect *target

	// referrers are the first MaxReferrers pages that link here, by order. They are kept only as long as the link
	// may turn out to be broken.
	referrers     []*target
	referrerCount int
}

func (t *target) fine() bool {
	return t.state == fetched && t.status >= 200 && t.status < 300
}

// settled says that a link to t cannot be broken any more, or will never be known to be.
func (t *target) settled() bool {
	return t.fine() || t.state > fetched
}

// linkedFrom notes that a page links here; it is called once for each page. The outcome does not depend on the order
// of the calls.
func (t *target) linkedFrom(page *target) {
	t.referrerCount++
	if t.settled() {
		return
	}
	at, _ := slices.BinarySearchFunc(t.referrers, page, byOrder)
	if at == MaxReferrers {
		return
	}
	if len(t.referrers) == MaxReferrers {
		t.referrers = t.referrers[:MaxReferrers-1]
	}
	t.referrers = slices.Insert(t.referrers, at, page)
}

func byOrder(a, b *target) int { return cmp.Compare(a.order, b.order) }

// broken says whether a link to t leads to no page, and if so how. A link whose end was not fetched is not broken.
func (t *target) broken() (Broken, bool) {
	b := Broken{URL: t.url, ReferrerCount: t.referrerCount}
	for _, page := range t.referrers {
		b.Referrers = append(b.Referrers, page.url)
	}

	end, seen := t, []*target{t}
	for end.redirect != nil {
		end = end.redirect
		if slices.Contains(seen, end) {
			b.Error = "redirect loop"
			return b, true
		}
		if len(seen) > MaxRedirects {
			b.Error = fmt.Sprintf("more than %d redirects", MaxRedirects)
			return b, true
		}
		seen = append(seen, end)
	}
	if end != t {
		b.RedirectedTo = end.url
	}
	switch {
	case end.state != fetched:
		return b, false
	case end.failure != "":
		b.Error = end.failure
		return b, true
	case end.status >= 400:
		b.Status = end.status
		return b, true
	case isRedirect(end.status):
		b.Error = fmt.Sprintf("redirect (%d) without a usable Location", end.status)
		return b, true
	}
	return b, false
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}
