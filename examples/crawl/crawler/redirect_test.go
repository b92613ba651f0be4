package crawler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRedirects(t *testing.T) {
	site := pages{
		"/": `<a href="/moved">m</a><a href="/old">o</a><a href="/loop">l</a><a href="/self">s</a><a href="/out">x</a>
		      <a href="/nowhere">n</a><a href="/r0">long</a><a href="/r1">just right</a><a href="/private">p</a>`,
		"/moved": to("/new#part"), "/new": `<a href="/below">b</a>`, "/below": "",
		"/old": to("/older"), "/older": to("/gone"),
		"/loop": to("/pool"), "/pool": to("/loop"), "/self": to("/self"),
		"/out":     to("https://elsewhere.invalid/"),
		"/nowhere": to(""),
		"/private": to("/secret/x"), "/robots.txt": plain("User-agent: *\nDisallow: /secret"), "/secret/x": "",
	}
	for i := range MaxRedirects + 1 {
		site[fmt.Sprintf("/r%d", i)] = to(fmt.Sprintf("/r%d", i+1))
	}
	site[fmt.Sprintf("/r%d", MaxRedirects+1)] = "the end"
	s := serve(t, site)
	r := crawlSite(t, config(t, s.URL))
	expect(t, "broken", broken(s, r), []string{
		"/loop: redirect loop < /", "/nowhere: redirect (302) without a usable Location < /",
		"/old: 404 at /gone < /", "/r0: more than 10 redirects < /", "/self: redirect loop < /",
	})
	expect(t, "skipped", r.Skipped, Skipped{Robots: 1, Offsite: 1})
	expect(t, "asked for what robots.txt forbids", s.asked["/secret/x"], 0)
	expect(t, "depth: a redirect is no link", r.MaxDepth, 2)
	expect(t, "pages", r.Pages, 4)
	for path, times := range s.asked {
		expect(t, path, times, 1)
	}
}

func TestOtherHostsAreNeverAsked(t *testing.T) {
	other := serve(t, pages{"/": "", "/robots.txt": ""})
	s := serve(t, pages{"/": `<a href="` + other.URL + `/">o</a><a href="/out">x</a>`, "/out": to(other.URL + "/landing")})
	r := crawlSite(t, config(t, s.URL))
	expect(t, "skipped", r.Skipped, Skipped{Offsite: 2})
	expect(t, "classes", r.Classes, Classes{S2xx: 1, S3xx: 1})
	expect(t, "requests to the other host", len(other.asked), 0)
}

func TestStartPageThatCannotBeFetched(t *testing.T) {
	other := serve(t, pages{"/": ""})
	s := serve(t, pages{"/out": to(other.URL), "/loop": to("/loop"), "/old": to("/gone"), "/fails": 500})
	for path, want := range map[string]string{
		"/gone": "answered 404", "/fails": "answered 500", "/loop": "redirect loop",
		"/old": "redirected to " + s.URL + "/gone: the page answered 404", "/out": "redirects to another site, " + other.URL + "/",
	} {
		_, err := Crawl(t.Context(), config(t, s.URL+path))
		var start *StartError
		if !errors.As(err, &start) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	expect(t, "requests to the other host", len(other.asked), 0)

	s.Close()
	if _, err := Crawl(t.Context(), config(t, s.URL)); err == nil || !strings.HasSuffix(err.Error(), "(RFC 9309): connection refused") {
		t.Errorf("closed server: %v", err)
	}
}

func TestStartPageMayRedirectWithinTheSite(t *testing.T) {
	s := serve(t, pages{"/": to("/en/"), "/en/": `<a href="/en/a">a</a>`, "/en/a": ""})
	r := crawlSite(t, config(t, s.URL))
	expect(t, "pages", r.Pages, 2)
	expect(t, "depth", r.MaxDepth, 1)
}
