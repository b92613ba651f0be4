// Package crawler walks the pages of one site, breadth first, and reports what it found: how many pages, how they
// answered, and which links are broken.
//
// A site is one scheme, host and port. The crawl goes from one link distance to the next, so that a page's distance is
// always the shortest one and the result does not depend on which answer came first.
package crawler

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// MaxRedirects is how many redirects in a row are followed before the link counts as broken.
	MaxRedirects = 10
	// MaxReferrers is how many of the pages that hold a broken link are remembered, those nearest to the start first.
	MaxReferrers = 10
	// MaxCrawlDelay bounds the Crawl-delay that robots.txt can ask for.
	MaxCrawlDelay = 10 * time.Second
	// MaxParsed is how much of an HTML page is searched for links, in bytes after decompression.
	MaxParsed = 2 << 20
	// MaxCounted is how much of any answer is read, in bytes after decompression.
	MaxCounted = 16 << 20
	// maxRemembered bounds the memory taken by the URLs that are known, in bytes. It is enough for some 300,000.
	maxRemembered = 64 << 20
)

// Config says what to crawl and how.
type Config struct {
	// Start is the first page, as urlnorm.ParseStart returns it.
	Start *url.URL
	// Depth is the largest link distance from the start page; 0 is only the start page.
	Depth int
	// MaxPages bounds the number of URLs that are fetched, whatever they answer.
	MaxPages int
	// Timeout bounds each request, with the reading of its body.
	Timeout time.Duration
	// Delay is the least time between the starts of two requests; 0 means robots.txt decides.
	Delay time.Duration
	// Concurrency is how many requests may be under way at once.
	Concurrency int
	// UserAgent is sent with each request; robots.txt is read for its leading product token.
	UserAgent string
	// Transport sends the requests; nil means one made for crawling a single host.
	Transport http.RoundTripper
	// Report, if set, is called every ReportEvery with how far the crawl has come.
	Report      func(Progress)
	ReportEvery time.Duration
}

// Progress is how far a crawl has come.
type Progress struct {
	Fetched, Waiting, Depth int
}

// Robots is what became of the site's robots.txt.
type Robots string

const (
	// RobotsFound means that it was read and is kept to.
	RobotsFound Robots = "found"
	// RobotsMissing means that there is none (a 4xx answer): all is allowed.
	RobotsMissing Robots = "missing"
	// RobotsUnavailable means that the server could not answer (5xx): nothing is allowed.
	RobotsUnavailable Robots = "unavailable"
	// RobotsUnread means that the crawl was stopped before it was read.
	RobotsUnread Robots = "unread"
)

// Incomplete is why a crawl did not visit every allowed page within its depth; empty when it did.
type Incomplete string

const (
	// Interrupted means that the context ended.
	Interrupted Incomplete = "interrupted"
	// ReachedMaxPages means that Config.MaxPages URLs were fetched and others remained.
	ReachedMaxPages Incomplete = "maxPages"
	// TooManyURLs means that the site has more URLs than are remembered.
	TooManyURLs Incomplete = "tooManyUrls"
)

// Result is what a crawl found.
type Result struct {
	Start  string
	Robots Robots
	// RobotsStatus is the HTTP status that robots.txt answered with, 0 when it has none.
	RobotsStatus int
	// Pages are 2xx answers with HTML, Files all other 2xx answers, Fetched all answers and failures.
	Pages, Files, Fetched int
	// Bytes is the size of all 2xx bodies after decompression.
	Bytes int64
	// Oversized counts the 2xx bodies of which MaxParsed or MaxCounted cut something off.
	Oversized int
	Classes   Classes
	Skipped   Skipped
	// MaxDepth is the largest link distance of a fetched URL.
	MaxDepth int
	// Broken is sorted by URL.
	Broken     []Broken
	Incomplete Incomplete
	Duration   time.Duration
}

// Classes counts fetched URLs by the first digit of their status; Error counts those without a whole answer.
type Classes struct{ S2xx, S3xx, S4xx, S5xx, Error int }

// Skipped counts the distinct URLs that were found but not fetched, by reason. Invalid alone counts a link once for
// each page that holds it.
type Skipped struct{ Robots, Depth, Limit, Offsite, Interrupted, Invalid int }

// Broken is a URL of the site that a page links to and that leads to no page.
type Broken struct {
	URL string
	// Status is the HTTP status of 400 or above at the end of the link; 0 when Error says what happened.
	Status int
	Error  string
	// RedirectedTo is where redirects led before the link broke; empty without redirects.
	RedirectedTo string
	// Referrers are up to MaxReferrers of the ReferrerCount pages that hold the link, nearest to the start first.
	Referrers     []string
	ReferrerCount int
}

// StartError says why the start page could not be fetched. There is no result then.
type StartError struct {
	Start, Reason string
}

func (e *StartError) Error() string {
	return fmt.Sprintf("cannot crawl %s: %s", e.Start, e.Reason)
}

// Crawl walks the site. When ctx ends it returns what there is, marked Interrupted. The only error is a *StartError.
func Crawl(ctx context.Context, cfg Config) (*Result, error) {
	began := time.Now()
	c := newCrawl(cfg)
	if err := c.readRobots(ctx); err != nil {
		return nil, err
	}
	if err := c.walk(ctx); err != nil {
		return nil, err
	}
	result := c.result()
	result.Duration = time.Since(began)
	return result, nil
}
