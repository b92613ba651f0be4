// Package site is a web site made up from two numbers, for crawlers to be measured against: everything on a page
// follows from the page's number, and everything that a crawl should find follows from the plan.
package site

import (
	"fmt"
	"strconv"
)

const (
	// MinPages is the smallest site: below it, the holders of a broken link would not be distinct pages.
	MinPages = 10

	// children is how many pages each page has below it; 10,000 pages are at most 3 links from the start.
	children = 25
	// maxHolders is on how many pages a broken link is at most.
	maxHolders = 5
	// external is a host that exists nowhere (RFC 2606).
	external = "https://external.invalid"
)

// Plan is a site: so many pages, and so many distinct URLs on them that are broken.
type Plan struct {
	Pages, Broken int
}

// Check refuses a plan that cannot be built.
func (p Plan) Check() error {
	if p.Pages < MinPages {
		return fmt.Errorf("pages: must be at least %d, not %d", MinPages, p.Pages)
	}
	if p.Broken < 0 {
		return fmt.Errorf("broken: must not be negative, not %d", p.Broken)
	}
	return nil
}

// pagePath is where a page is: page 0 is the start.
func pagePath(i int) string {
	if i == 0 {
		return "/"
	}
	return "/p/" + strconv.Itoa(i)
}

// childrenOf returns the range of pages below a page in the tree.
func (p Plan) childrenOf(i int) (from, to int) {
	return min(i*children+1, p.Pages), min(i*children+children+1, p.Pages)
}

// after is the next page in the ring that goes through all of them.
func (p Plan) after(i int) int { return (i + 1) % p.Pages }

// detour is where page i's redirect leads, if it has one.
func (p Plan) detour(i int) (to int, ok bool) { return (i*7 + 1) % p.Pages, i%50 == 10 }

// What some pages hold besides, by their number.
func hasPrivate(i int) bool  { return i%100 == 20 }
func hasWayOut(i int) bool   { return i%400 == 30 }
func hasFile(i int) bool     { return i%200 == 40 }
func hasExternal(i int) bool { return i%10 == 5 }

// fileSize is the size of the file that page i holds, in bytes.
func fileSize(i int) int { return 1000 + i }

func detourPath(i int) string  { return "/r/" + strconv.Itoa(i) }
func privatePath(i int) string { return "/private/" + strconv.Itoa(i) }
func wayOutPath(i int) string  { return "/out/" + strconv.Itoa(i) }
func filePath(i int) string    { return "/files/" + strconv.Itoa(i) }
func externalURL(i int) string { return external + "/" + strconv.Itoa(i%370) }
func brokenPath(j int) string  { return "/" + kinds[j%len(kinds)].folder + "/" + strconv.Itoa(j) }
func holdersOf(j int) int      { return 1 + j%maxHolders }
func brokenKind(j int) kind    { return kinds[j%len(kinds)] }
func (p Plan) spread() int     { return p.Pages / maxHolders }

// kind is a way of being broken.
type kind struct {
	folder string
	// status and failure are what a crawl should say; one of the two.
	status  int
	failure string
}

var (
	missing = kind{folder: "lost", status: 404}
	failing = kind{folder: "fail", status: 500}
	// moved redirects to a page that is missing.
	moved = kind{folder: "moved", status: 404}
	// looping redirects to a page that redirects back.
	looping = kind{folder: "loop", failure: "redirect loop"}

	kinds = []kind{missing, missing, missing, failing, missing, missing, moved, missing, missing, looping}
)

// brokenOn returns the broken links that page i holds.
func (p Plan) brokenOn(i int) []int {
	var held []int
	for k := range maxHolders {
		first := ((i-k*p.spread())%p.Pages + p.Pages) % p.Pages
		for j := first; j < p.Broken; j += p.Pages {
			if k < holdersOf(j) {
				held = append(held, j)
			}
		}
	}
	return held
}
