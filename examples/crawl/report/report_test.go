package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/examples/crawl/crawler"
	"github.com/mcptask/mcptask/examples/crawl/internal/contract"
)

// crawled is a result with so many broken links, each with so many referrers.
func crawled(links, referrers int, path string) *crawler.Result {
	r := &crawler.Result{Start: "http://example.com/", Robots: crawler.RobotsFound, Pages: 1, Fetched: 1 + links}
	for i := range links {
		b := crawler.Broken{URL: fmt.Sprintf("http://example.com/%s%05d?a=1&b=<2>", path, i), ReferrerCount: referrers}
		if i%2 == 0 {
			b.Status = 404
		} else {
			b.Error = "redirect loop"
			b.RedirectedTo = b.URL
		}
		for k := range min(referrers, crawler.MaxReferrers) {
			b.Referrers = append(b.Referrers, fmt.Sprintf("http://example.com/page/%d", k))
		}
		r.Broken = append(r.Broken, b)
	}
	return r
}

func TestJSONIsBoundedAndSaysWhatItLeavesOut(t *testing.T) {
	output := contract.Output(t, "../tool.yaml")
	long := strings.Repeat("x", 4050)
	for _, c := range []struct {
		name      string
		result    *crawler.Result
		listed    int
		referrers int
	}{
		{"no broken links", crawled(0, 0, ""), 0, 0},
		{"all fits", crawled(3, 4, ""), 3, 4},
		{"more referrers than are remembered", crawled(3, 400, ""), 3, crawler.MaxReferrers},
		{"fewer referrers let all links in", crawled(60, 400, ""), 60, 2},
		{"thousands", crawled(5000, 400, ""), 77, 1},
		{"long URLs", crawled(50, 2, long), 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := New(c.result)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := r.WriteJSON(&b); err != nil {
				t.Fatal(err)
			}
			if b.Len() > MaxJSON || strings.Count(b.String(), "\n") != 1 {
				t.Errorf("%d bytes, %d lines", b.Len(), strings.Count(b.String(), "\n"))
			}
			output.Check(t, b.Bytes())

			var got Report
			if err := json.Unmarshal(b.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.BrokenTotal != len(c.result.Broken) || got.BrokenOmitted != got.BrokenTotal-len(got.Broken) {
				t.Errorf("%d broken, %d listed, %d omitted", got.BrokenTotal, len(got.Broken), got.BrokenOmitted)
			}
			if len(got.Broken) != c.listed {
				t.Errorf("%d listed, want %d", len(got.Broken), c.listed)
			}
			for i, b := range got.Broken {
				if b.URL != c.result.Broken[i].URL {
					t.Fatalf("entry %d is %s: not left out from the end", i, b.URL)
				}
				if len(b.Referrers) != c.referrers || len(b.Referrers)+b.ReferrersOmitted != c.result.Broken[i].ReferrerCount {
					t.Fatalf("entry %d has %d referrers and omits %d", i, len(b.Referrers), b.ReferrersOmitted)
				}
			}
		})
	}
}

func TestText(t *testing.T) {
	result := crawled(5000, 3, "")
	result.Incomplete = crawler.ReachedMaxPages
	result.Bytes = 12_088_061
	result.Broken[0].URL = "http://example.com/\x1b[2J" + strings.Repeat("x", 4000)
	result.Oversized, result.Skipped.Interrupted, result.Skipped.Invalid = 1, 2, 3
	r, err := New(result)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"Crawled http://example.com/ in 0s: incomplete, it reached the page limit.\n", "12.1 MB", "Broken links: 5000.\n",
		"(redirect loop at http://example.com/00001?a=1&b=<2>), linked from http://example.com/page/0 and 2 more\n",
		"… and 4990 more.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 20 {
		t.Errorf("%d lines", lines)
	}
	if strings.Contains(text, "\x1b") || len(text) > 4000 {
		t.Errorf("the text holds control characters or is too long: %d bytes", len(text))
	}
}
