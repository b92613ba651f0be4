package crawler

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/robots"
	"github.com/mcptask/mcptask/examples/crawl/urlnorm"
)

// crawl is a walk under way. One goroutine owns it; others only fetch.
type crawl struct {
	cfg     Config
	fetcher *fetcher
	rules   *robots.Rules
	start   *target
	targets map[string]*target
	// depth is the link distance being fetched, -1 before the first.
	depth int
	// room is the memory left for targets, in bytes, roughly.
	room int
	// next are the targets one link further than the ones being fetched, redirected those that redirects lead to.
	next, redirected []*target
	found            Result
}

func newCrawl(cfg Config) *crawl {
	return &crawl{
		cfg:     cfg,
		fetcher: newFetcher(cfg),
		rules:   robots.AllowAll(),
		targets: map[string]*target{},
		room:    maxRemembered,
		depth:   -1,
		found:   Result{Start: cfg.Start.String(), Robots: RobotsUnread},
	}
}

// readRobots decides what may be fetched, and how fast. A site that cannot even be asked is a StartError.
func (c *crawl) readRobots(ctx context.Context) error {
	body, status, err := c.fetcher.robotsTxt(ctx)
	c.found.RobotsStatus = status
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		reason := "robots.txt cannot be read, so nothing may be fetched (RFC 9309): " + c.fetcher.explain(err)
		return &StartError{Start: c.found.Start, Reason: reason}
	case status >= 500:
		c.found.Robots = RobotsUnavailable
		c.rules = robots.DisallowAll()
	case status >= 200 && status < 300:
		c.found.Robots = RobotsFound
		c.rules = robots.Parse(body, robots.ProductToken(c.cfg.UserAgent))
		if c.cfg.Delay == 0 {
			c.fetcher.pace.setGap(min(c.rules.CrawlDelay, MaxCrawlDelay))
		}
	default:
		c.found.Robots = RobotsMissing
	}
	return nil
}

// walk fetches one link distance after the other. At each, the URLs that redirects lead to come after the ones that
// pages link to, until there are no more.
func (c *crawl) walk(ctx context.Context) error {
	c.start = c.know(link{url: c.found.Start})
	c.queue(c.start)
	for c.depth < c.cfg.Depth && len(c.next) > 0 && ctx.Err() == nil {
		c.depth++
		wave := c.next
		c.next = nil
		for len(wave) > 0 {
			wave = c.admit(wave)
			c.fetchAll(ctx, wave)
			wave, c.redirected = c.redirected, nil
		}
		if c.depth == 0 && ctx.Err() == nil {
			if err := c.checkStart(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkStart turns a start page that leads nowhere into an error.
func (c *crawl) checkStart() error {
	if b, broken := c.start.broken(); broken {
		reason := b.Error
		if reason == "" {
			reason = fmt.Sprintf("the page answered %d %s", b.Status, http.StatusText(b.Status))
		}
		if b.RedirectedTo != "" {
			reason = fmt.Sprintf("redirected to %s: %s", b.RedirectedTo, reason)
		}
		return &StartError{Start: c.start.url, Reason: reason}
	}
	end := c.start
	for end.redirect != nil {
		end = end.redirect
	}
	if end.state == offsite {
		return &StartError{Start: c.start.url, Reason: fmt.Sprintf("it redirects to another site, %s; crawl that one instead", end.url)}
	}
	return nil
}

// admit takes from a wave what was fetched meanwhile, sorts it, and cuts it where MaxPages is reached. Being
// sorted is what makes a crawl that is cut short give the same result each time.
func (c *crawl) admit(wave []*target) []*target {
	wave = slices.DeleteFunc(wave, func(t *target) bool { return t.state != waiting })
	slices.SortFunc(wave, func(a, b *target) int { return cmp.Compare(a.url, b.url) })
	wave = slices.Compact(wave)
	room := min(c.cfg.MaxPages-c.found.Fetched, len(wave))
	for _, t := range wave[room:] {
		t.state = overLimit
		c.found.Skipped.Limit++
	}
	if room < len(wave) && c.found.Incomplete == "" {
		c.found.Incomplete = ReachedMaxPages
	}
	return wave[:room]
}

// fetchAll fetches a wave, several at once, and takes in each answer as it comes.
func (c *crawl) fetchAll(ctx context.Context, wave []*target) {
	type fetchedTarget struct {
		target *target
		answer answer
	}
	todo := make(chan *target)
	done := make(chan fetchedTarget)
	var workers sync.WaitGroup
	for range min(c.cfg.Concurrency, len(wave)) {
		workers.Go(func() {
			for t := range todo {
				done <- fetchedTarget{t, c.fetcher.fetch(ctx, t.url)}
			}
		})
	}
	for i, t := range wave {
		t.state = fetching
		t.order = c.found.Fetched + i
		if t.referrerCount > 0 {
			t.hops = 0
		}
	}
	go func() {
		defer close(done)
		defer workers.Wait()
		defer close(todo)
		for _, t := range wave {
			select {
			case todo <- t:
			case <-ctx.Done():
				return
			}
		}
	}()

	every := c.cfg.ReportEvery
	if c.cfg.Report == nil || every <= 0 {
		every = time.Hour
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	taken := 0
	for {
		select {
		case f, more := <-done:
			if !more {
				return
			}
			taken++
			c.take(f.target, f.answer)
		case <-ticker.C:
			if c.cfg.Report != nil {
				c.cfg.Report(Progress{Fetched: c.found.Fetched, Waiting: len(wave) - taken + len(c.next), Depth: c.depth})
			}
		}
	}
}

// take enters one answer into what was found.
func (c *crawl) take(t *target, a answer) {
	if a.interrupted {
		return
	}
	t.state, t.status, t.failure = fetched, a.status, a.failure
	c.count(a)
	if t.fine() {
		t.referrers = nil
	}
	if a.redirect != nil {
		c.follow(t, c.know(*a.redirect))
	}
	for _, l := range a.links {
		to := c.know(l)
		if to == nil {
			continue
		}
		to.linkedFrom(t)
		c.queue(to)
	}
}

func (c *crawl) count(a answer) {
	f := &c.found
	f.Fetched++
	f.MaxDepth = max(f.MaxDepth, c.depth)
	f.Skipped.Invalid += a.invalid
	switch {
	case a.failure != "":
		f.Classes.Error++
	case a.status >= 500:
		f.Classes.S5xx++
	case a.status >= 400:
		f.Classes.S4xx++
	case a.status >= 300:
		f.Classes.S3xx++
	default:
		f.Classes.S2xx++
		f.Bytes += a.size
		if a.html {
			f.Pages++
		} else {
			f.Files++
		}
		if a.oversized {
			f.Oversized++
		}
	}
}

// forgotten stands for the end of a redirect that there was no room to remember.
var forgotten = &target{state: overLimit}

// follow gives the end of a redirect its place in the walk: the same distance as the redirect itself.
func (c *crawl) follow(from, to *target) {
	if to == nil {
		to = forgotten
	}
	from.redirect = to
	if to.state != waiting || from.hops >= MaxRedirects {
		return
	}
	if to.hops == 0 || from.hops+1 < to.hops {
		to.hops = from.hops + 1
	}
	to.queued = true
	c.redirected = append(c.redirected, to)
}

// queue puts a target among those one link further.
func (c *crawl) queue(t *target) {
	if t.state == waiting && !t.queued {
		t.queued = true
		c.next = append(c.next, t)
	}
}

func (c *crawl) allowed(rawURL string) bool {
	return c.rules.Allowed(strings.TrimPrefix(rawURL, urlnorm.Site(c.cfg.Start)))
}

// know returns the target of a link, and makes it when the link is new. It returns nil when there is no more room.
func (c *crawl) know(l link) *target {
	if t, ok := c.targets[l.url]; ok {
		return t
	}
	const overhead = 250
	if c.room -= len(l.url) + overhead; c.room < 0 {
		c.found.Incomplete = TooManyURLs
		c.found.Skipped.Limit++
		return nil
	}
	t := &target{url: l.url}
	switch {
	case l.offsite:
		t.state = offsite
		c.found.Skipped.Offsite++
	case !c.allowed(l.url):
		t.state = disallowed
		c.found.Skipped.Robots++
	}
	c.targets[l.url] = t
	return t
}

// result closes the books: what is still waiting was either too far from the start or is left over.
func (c *crawl) result() *Result {
	r := &c.found
	for _, t := range c.targets {
		if t.queued && t.state <= fetching {
			r.Skipped.Interrupted++
		}
		if t.referrerCount == 0 {
			continue
		}
		if b, broken := t.broken(); broken {
			r.Broken = append(r.Broken, b)
		}
	}
	if c.depth == c.cfg.Depth {
		for _, t := range c.next {
			if t.state == waiting {
				r.Skipped.Depth++
				r.Skipped.Interrupted--
			}
		}
	}
	if r.Skipped.Interrupted > 0 {
		r.Incomplete = Interrupted
	}
	slices.SortFunc(r.Broken, func(a, b Broken) int { return cmp.Compare(a.URL, b.URL) })
	return r
}
