package crawler

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestSpellingsAreFetchedOnce(t *testing.T) {
	s := serve(t, pages{
		"/":  `<a href="a">1</a><a href="/a#x">2</a><A HREF="./b/../a">3</A><area href="%61"><a href="">self</a><a href="mailto:x@y">m</a>`,
		"/a": `<a href="/">back</a><a>none</a><a href="http://[">bad</a><a href="http://[">bad</a><!-- <a href="/c"> --><script>"<a href='/c'>"</script>`,
	})
	r := crawlSite(t, config(t, s.URL))
	expect(t, "pages", r.Pages, 2)
	expect(t, "invalid", r.Skipped.Invalid, 1)
	expect(t, "robots", r.Robots, RobotsMissing)
	expect(t, "asked", s.asked, map[string]int{"/robots.txt": 1, "/": 1, "/a": 1})
}

func TestBaseHref(t *testing.T) {
	s := serve(t, pages{
		"/":          `<a href="x">before</a><base href="/deep/er/"><base href="/other/"><a href="../y">y</a><a href="https://elsewhere.invalid/">z</a>`,
		"/deep/er/x": "x", "/deep/y": `<base href="https://elsewhere.invalid/"><a href="w">offsite by base</a>`,
	})
	r := crawlSite(t, config(t, s.URL))
	expect(t, "pages", r.Pages, 3)
	expect(t, "offsite", r.Skipped.Offsite, 2)
	expect(t, "broken", broken(s, r), nil)
}

func TestBrokenLinksAndTheirReferrers(t *testing.T) {
	s := serve(t, pages{
		"/":      `<a href="/a">a</a><a href="/b">b</a><a href="/gone">g</a>`,
		"/a":     `<a href="/gone#1">g</a><a href="/gone#2">g</a><a href="/fails">f</a>`,
		"/b":     `<a href="/fails">f</a><a href="/c">c</a>`,
		"/c":     `<a href="/gone">late, after it was found to be broken</a><a href="/cut">cut</a>`,
		"/fails": 503,
		"/cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "short")
		},
	})
	r := crawlSite(t, config(t, s.URL))
	expect(t, "broken", broken(s, r), []string{
		"/cut: the body ended too early < /c", "/fails: 503 < /a /b", "/gone: 404 < / /a /c",
	})
	expect(t, "classes", r.Classes, Classes{S2xx: 4, S4xx: 1, S5xx: 1, Error: 1})
	expect(t, "depth", r.MaxDepth, 3)
}

func TestManyReferrersKeepTheNearest(t *testing.T) {
	site := pages{"/": ""}
	for i := range 30 {
		site["/"] = site["/"].(string) + fmt.Sprintf(`<a href="/p%02d">p</a>`, i)
		site[fmt.Sprintf("/p%02d", i)] = `<a href="/gone">g</a>`
	}
	s := serve(t, site)
	r := crawlSite(t, config(t, s.URL))
	if len(r.Broken) != 1 || r.Broken[0].ReferrerCount != 30 || len(r.Broken[0].Referrers) != MaxReferrers {
		t.Fatalf("broken is %+v", r.Broken)
	}
	for i, page := range r.Broken[0].Referrers {
		expect(t, "referrer", page, fmt.Sprintf("%s/p%02d", s.URL, i))
	}
}

func TestRobots(t *testing.T) {
	site := func(robots any) pages {
		return pages{"/robots.txt": robots, "/": `<a href="/a?q=1">a</a><a href="/b">b</a>`, "/a?q=1": "", "/b": ""}
	}
	for _, c := range []struct {
		name   string
		robots any
		want   Robots
		pages  int
		barred int
	}{
		{"found", plain("User-agent: *\nDisallow: /a?q"), RobotsFound, 2, 1},
		{"missing", 404, RobotsMissing, 3, 0},
		{"forbidden counts as missing", 403, RobotsMissing, 3, 0},
		{"failing", 503, RobotsUnavailable, 0, 1},
		{"endless redirects count as missing", to("/robots.txt"), RobotsMissing, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, site(c.robots))
			r := crawlSite(t, config(t, s.URL))
			expect(t, "robots", r.Robots, c.want)
			expect(t, "pages", r.Pages, c.pages)
			expect(t, "skipped", r.Skipped.Robots, c.barred)
			expect(t, "incomplete", r.Incomplete, "")
		})
	}
}

func TestBodies(t *testing.T) {
	const tail = `<a href="/late">beyond what is parsed</a>`
	page := func(contentType, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			io.WriteString(w, body)
		}
	}
	big := `<a href="/early">e</a>` + strings.Repeat(" ", MaxParsed) + tail
	zipped := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, `<a href="/early">e</a>`)
		z.Close()
	}
	for _, c := range []struct {
		name      string
		answer    any
		found     string
		bytes     int64
		oversized int
	}{
		{"empty page", page("text/html", ""), "", 0, 0},
		{"page too large to parse", page("text/html", big), "/early", int64(len(big)), 1},
		{"file too large to count", page("application/zip", strings.Repeat("x", MaxCounted+1)), "", MaxCounted, 1},
		{"file as large as can be counted", page("application/zip", strings.Repeat("x", MaxCounted)), "", MaxCounted, 0},
		{"not HTML", page("text/plain", tail), "", int64(len(tail)), 0},
		{"gzip", zipped, "/early", 22, 0},
		{"Latin-1 by header", page("text/html; charset=iso-8859-1", "<a href='/caf\xe9'>"), "/caf%C3%A9", 16, 0},
		{"UTF-16", page("text/html; charset=utf-16le", "<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00\xe9\x00>\x00"), "/%C3%A9", 20, 0},
		{"Windows-1251 by meta", page("text/html", "<meta charset=windows-1251><a href='/\xf4'>"), "/%D1%84", 40, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, pages{"/": c.answer})
			cfg := config(t, s.URL)
			r := crawlSite(t, cfg)
			var want []string
			if c.found != "" {
				want = []string{c.found + ": 404 < /"}
			}
			expect(t, "links", broken(s, r), want)
			expect(t, "bytes", r.Bytes, c.bytes)
			expect(t, "oversized", r.Oversized, c.oversized)
		})
	}
}

func TestUserAgentIsSentAndFound(t *testing.T) {
	var agents []string
	s := serve(t, pages{
		"/robots.txt": plain("User-agent: other-bot\nDisallow: /a\n"),
		"/": func(w http.ResponseWriter, r *http.Request) {
			agents = append(agents, r.UserAgent())
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, `<a href="/a">a</a>`)
		},
	})
	cfg := config(t, s.URL)
	cfg.UserAgent = "Other-Bot/2.1"
	r := crawlSite(t, cfg)
	expect(t, "agents", agents, []string{"Other-Bot/2.1"})
	expect(t, "skipped", r.Skipped.Robots, 1)
}

func TestSameSiteSameResult(t *testing.T) {
	s := serve(t, pages{
		"/":  `<a href="/c">c</a><a href="/b">b</a><a href="/a">a</a><a href="/r">r</a>`,
		"/a": `<a href="/x">x</a><a href="/c">c</a>`, "/b": `<a href="/x">x</a><a href="/y">y</a>`, "/c": `<a href="/y">y</a>`,
		"/r": to("/y"),
	})
	cfg := config(t, s.URL)
	var first *Result
	for range 20 {
		r := crawlSite(t, cfg)
		r.Duration = 0
		if first == nil {
			first = r
		}
		expect(t, "result", r, first)
	}
	if !slices.IsSortedFunc(first.Broken, func(a, b Broken) int { return strings.Compare(a.URL, b.URL) }) {
		t.Error("broken links are not sorted")
	}
}
