package robots

import (
	"testing"
	"time"
)

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name, body string
		allowed    []string
		disallowed []string
	}{
		{"empty file", "", []string{"/", "/x"}, nil},
		{"an HTML page instead", "<html><body>Not: found</body></html>", []string{"/"}, nil},
		{"empty disallow", "User-agent: *\nDisallow:\n", []string{"/"}, nil},
		{"all", "User-agent: *\nDisallow: /\n", []string{"/robots.txt"}, []string{"/", "/x?y"}},
		{"prefix", "User-agent: *\nDisallow: /fish\n", []string{"/", "/Fish", "/a/fish"}, []string{"/fish", "/fishing", "/fish/x", "/fish?id=1"}},
		{"longest wins", "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\n", []string{"/a/b", "/a/b/d"}, []string{"/a", "/a/b/c"}},
		{"tie allows", "User-agent: *\nDisallow: /y\nAllow: /y\n", []string{"/y"}, nil},
		{"wildcards are anchored", "User-agent: *\nDisallow: /a*b\n", []string{"/x/a/b", "/a"}, []string{"/a/b", "/axxb", "/ab/c"}},
		{"end", "User-agent: *\nDisallow: /*.pdf$\nDisallow: /only$\n", []string{"/a.pdf?x", "/a.pdf2", "/only/x", "/b/only"}, []string{"/a.pdf", "/x/y.pdf.pdf", "/only"}},
		{"many wildcards", "User-agent: *\nDisallow: /*a*a*b$\n", []string{"/aab/", "/ab"}, []string{"/xaxaxb", "/aab"}},
		{"percent-encoding", "User-agent: *\nDisallow: /%C3%A9\nDisallow: /ü\nDisallow: /%7ejoe\n", nil, []string{"/é", "/%c3%a9", "/%C3%BC", "/~joe"}},
		{"own group only", "User-agent: *\nDisallow: /y\nUser-agent: MCPTask-Crawl/2.0\nDisallow: /z\n", []string{"/y"}, []string{"/z"}},
		{"own group allows all", "User-agent: *\nDisallow: /\nUser-agent: mcptask-crawl\nDisallow:\n", []string{"/"}, nil},
		{"another's prefix is not ours", "User-agent: mcptask\nDisallow: /\n", []string{"/"}, nil},
		{"groups are merged", "User-agent: *\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\nUser-agent: *\nDisallow: /c\n", []string{"/b"}, []string{"/a", "/c"}},
		{"several agents", "User-agent: x\nUser-agent: mcptask-crawl\nSitemap: http://e/s\nDisallow: /a # why\n", nil, []string{"/a"}},
		{"bad lines are passed over", "Disallow: /x\nnonsense\n: \nUser-agent: *\nCrawl-delay:\nDisallow: /y\n", []string{"/x"}, []string{"/y"}},
		{"line ends and BOM", "\ufeffUSER-AGENT: *\r\nDISALLOW: /a\rdisallow : /b", nil, []string{"/a", "/b"}},
	} {
		rules := Parse([]byte(c.body), "mcptask-crawl")
		for _, path := range c.allowed {
			if !rules.Allowed(path) {
				t.Errorf("%s: %s is disallowed", c.name, path)
			}
		}
		for _, path := range c.disallowed {
			if rules.Allowed(path) {
				t.Errorf("%s: %s is allowed", c.name, path)
			}
		}
	}
	if !AllowAll().Allowed("/x") || DisallowAll().Allowed("/x") {
		t.Error("AllowAll or DisallowAll does not")
	}
}

func TestCrawlDelay(t *testing.T) {
	for body, want := range map[string]time.Duration{
		"":                                   0,
		"User-agent: *\nCrawl-delay: 1.5":    1500 * time.Millisecond,
		"User-agent: x\nCrawl-delay: 5":      0,
		"User-agent: *\nCrawl-delay: -1":     0,
		"User-agent: *\nCrawl-delay: NaN":    0,
		"User-agent: *\nCrawl-delay: +Inf":   24 * time.Hour,
		"User-agent: *\nCrawl-delay: often":  0,
		"User-agent: *\nCrawl-delay: 1e9999": 0,
	} {
		if got := Parse([]byte(body), "mcptask-crawl").CrawlDelay; got != want {
			t.Errorf("%q: %v, want %v", body, got, want)
		}
	}
}

func TestProductToken(t *testing.T) {
	for agent, want := range map[string]string{"mcptask-crawl/1.0 (+https://x)": "mcptask-crawl", "Bot": "Bot", "1": ""} {
		if got := ProductToken(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}
