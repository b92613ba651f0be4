package crawler

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestDepthAndLimit(t *testing.T) {
	s := serve(t, pages{
		"/": `<a href="/b">b</a><a href="/a">a</a>`, "/a": `<a href="/c">c</a>`, "/b": `<a href="/d">d</a><a href="/c">c</a>`,
		"/c": "", "/d": "",
	})
	cfg := config(t, s.URL)
	cfg.Depth = 0
	r := crawlSite(t, cfg)
	expect(t, "depth 0", []int{r.Pages, r.Skipped.Depth, r.MaxDepth}, []int{1, 2, 0})
	expect(t, "depth 0 incomplete", r.Incomplete, "")

	cfg.Depth = 1
	r = crawlSite(t, cfg)
	expect(t, "depth 1", []int{r.Pages, r.Skipped.Depth, r.MaxDepth}, []int{3, 2, 1})

	cfg.Depth, cfg.MaxPages = 20, 2
	r = crawlSite(t, cfg)
	expect(t, "limit 2", []int{r.Pages, r.Skipped.Limit, r.MaxDepth}, []int{2, 2, 1})
	expect(t, "limit 2 incomplete", r.Incomplete, ReachedMaxPages)
	expect(t, "the first by name was taken", s.asked["/b"], 1)

	cfg.MaxPages = 5
	expect(t, "limit 5 incomplete", crawlSite(t, cfg).Incomplete, "")
}

func TestSlowAnswersTimeOut(t *testing.T) {
	block := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	trickle := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<p>so far")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	s := serve(t, pages{"/": `<a href="/slow">s</a><a href="/trickle">t</a><a href="/a">a</a>`, "/a": "", "/slow": block, "/trickle": trickle})
	cfg := config(t, s.URL)
	cfg.Timeout = time.Second
	r := crawlSite(t, cfg)
	expect(t, "broken", broken(s, r), []string{
		"/slow: no whole answer within 1s < /", "/trickle: no whole answer within 1s < /",
	})
	expect(t, "incomplete", r.Incomplete, "")
}

func TestStoppedCrawlKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang := func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	s := serve(t, pages{"/": `<a href="/a">a</a><a href="/b">b</a><a href="/gone">g</a>`, "/a": `<a href="/hang">h</a><a href="/gone">g</a>`, "/b": "", "/hang": hang})
	r, err := Crawl(ctx, config(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "incomplete", r.Incomplete, Interrupted)
	expect(t, "pages", []int{r.Pages, r.Fetched, r.Skipped.Interrupted}, []int{3, 4, 1})
	expect(t, "broken", broken(s, r), []string{"/gone: 404 < / /a"})

	r, err = Crawl(ctx, config(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "stopped before it began", []any{r.Robots, r.Fetched, r.Skipped.Interrupted}, []any{RobotsUnread, 0, 1})
}

func TestPoliteness(t *testing.T) {
	var mu sync.Mutex
	var starts []time.Time
	note := func(answer string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Now())
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, answer)
		}
	}
	s := serve(t, pages{
		"/robots.txt": note("User-agent: *\nCrawl-delay: 0.1\n"),
		"/":           note(`<a href="/a">a</a><a href="/b">b</a><a href="/c">c</a>`), "/a": note(""), "/b": note(""), "/c": note(""),
	})
	for _, delay := range []time.Duration{0, 150 * time.Millisecond} {
		starts = nil
		cfg := config(t, s.URL)
		cfg.Delay = delay
		began := time.Now()
		crawlSite(t, cfg)
		// Five requests, four gaps. The time from the first to the last is what the crawler rules over; single
		// arrivals are at the mercy of the scheduler.
		if least := 4 * max(delay, 100*time.Millisecond); time.Since(began) < least {
			t.Errorf("delay %v: %d requests in %v, want at least %v", delay, len(starts), time.Since(began), least)
		}
	}
}

func TestCrawlDelayIsCapped(t *testing.T) {
	s := serve(t, pages{"/robots.txt": plain("User-agent: *\nCrawl-delay: 3600"), "/": ""})
	c := newCrawl(config(t, s.URL))
	if err := c.readRobots(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "gap", c.fetcher.pace.gap, MaxCrawlDelay)
}

func TestMemoryIsBounded(t *testing.T) {
	s := serve(t, pages{"/": `<a href="/a">a</a><a href="/r">r</a>`, "/a": `<a href="/b">b</a><a href="/gone">g</a>`, "/r": to("/beyond")})
	c := newCrawl(config(t, s.URL))
	c.room = 3 * (250 + len(s.URL) + 10)
	if err := c.walk(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := c.result()
	expect(t, "incomplete", r.Incomplete, TooManyURLs)
	expect(t, "fetched", r.Fetched, 3)
	expect(t, "limit", r.Skipped.Limit, 3)
	expect(t, "a redirect to what is not remembered is not broken", broken(s, r), nil)
}
