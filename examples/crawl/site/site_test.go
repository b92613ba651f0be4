package site

import (
	"slices"
	"strings"
	"testing"
)

func TestSmallestSiteByHand(t *testing.T) {
	// Ten pages: 0 links to all others. Broken 0 to 9 are on 1, 2, 3, 4, 5, 1, 2, 3, 4, 5 pages; 3 fails, 6 has moved,
	// 9 loops. Page 5 alone links to another site.
	truth := Plan{Pages: 10, Broken: 10}.Truth()
	if truth.Pages != 10 || truth.Files != 0 || truth.Fetched != 10+7+1+2+2 || truth.MaxDepthReached != 2 || truth.BrokenTotal != 10 {
		t.Errorf("truth is %+v", truth)
	}
	if want := (StatusClasses{S2xx: 10, S3xx: 3, S4xx: 8, S5xx: 1}); truth.StatusClasses != want {
		t.Errorf("classes are %+v, want %+v", truth.StatusClasses, want)
	}
	if want := (Skipped{Robots: 0, Offsite: 1}); truth.Skipped != want {
		t.Errorf("skipped is %+v, want %+v", truth.Skipped, want)
	}
	if want := (BrokenTruth{Path: "/loop/9", Error: "redirect loop", Referrers: 5}); truth.Broken[9] != want {
		t.Errorf("broken 9 is %+v, want %+v", truth.Broken[9], want)
	}
}

func TestBrokenLinksAreOnAsManyPagesAsSaid(t *testing.T) {
	for _, p := range []Plan{{Pages: 10, Broken: 37}, {Pages: 101, Broken: 137}, {Pages: 1000, Broken: 9}} {
		pagesOf := make([][]int, p.Broken)
		for i := range p.Pages {
			page := string(p.render(i))
			for _, j := range p.brokenOn(i) {
				pagesOf[j] = append(pagesOf[j], i)
				if link := `"` + brokenPath(j) + `"`; strings.Count(page, link) != 1 {
					t.Errorf("%+v: page %d holds %s %d times", p, i, link, strings.Count(page, link))
				}
			}
		}
		for j, pages := range pagesOf {
			var want []int
			for k := range holdersOf(j) {
				want = append(want, (j+k*(p.Pages/5))%p.Pages)
			}
			slices.Sort(want)
			if !slices.Equal(pages, want) || len(slices.Compact(want)) != holdersOf(j) {
				t.Errorf("%+v: broken link %d is on %v, want %v", p, j, pages, want)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	if err := (Plan{Pages: 10}).Check(); err != nil {
		t.Error(err)
	}
	for _, p := range []Plan{{Pages: 9}, {Pages: 10, Broken: -1}} {
		if p.Check() == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
