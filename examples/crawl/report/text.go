package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

const (
	// textBroken is how many broken links the text names.
	textBroken = 10
	// textWidth is how much of a URL or an error the text shows, in characters.
	textWidth = 160
)

// WriteText writes the summary that people read.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	say("Crawled %s in %s: %s.", brief(r.Start), time.Duration(r.DurationMs)*time.Millisecond, r.ending())
	say("Pages: %d HTML pages and %d other files, %s; %d URLs fetched, the farthest %d links from the start.",
		r.Pages, r.Files, size(r.Bytes), r.Fetched, r.MaxDepthReached)
	if r.Oversized > 0 {
		say("Oversized: %d bodies were larger than is read; links at their end were not seen.", r.Oversized)
	}
	say("Answers: %d 2xx, %d 3xx, %d 4xx, %d 5xx, %d network errors.",
		r.StatusClasses.S2xx, r.StatusClasses.S3xx, r.StatusClasses.S4xx, r.StatusClasses.S5xx, r.StatusClasses.Error)
	say("Not fetched: %d disallowed by robots.txt, %d beyond the depth, %d beyond the page limit, %d on other sites.",
		r.Skipped.Robots, r.Skipped.Depth, r.Skipped.Limit, r.Skipped.Offsite)
	if r.Skipped.Interrupted > 0 {
		say("Left over: %d URLs were known but not fetched when the crawl was stopped.", r.Skipped.Interrupted)
	}
	if r.Skipped.Invalid > 0 {
		say("Invalid: %d links are not URLs.", r.Skipped.Invalid)
	}
	say("robots.txt: %s.", r.robots())
	say("Broken links: %d.", r.BrokenTotal)
	named := r.Broken[:min(textBroken, len(r.Broken))]
	for _, broken := range named {
		say("  %s", broken)
	}
	if more := r.BrokenTotal - len(named); more > 0 {
		say("  … and %d more. The JSON lists %d of %d.", more, len(r.Broken), r.BrokenTotal)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) ending() string {
	switch r.IncompleteReason {
	case "":
		return "complete"
	case "interrupted":
		return "incomplete, it was stopped"
	case "maxPages":
		return "incomplete, it reached the page limit"
	case "tooManyUrls":
		return "incomplete, the site has more URLs than can be remembered"
	default:
		return "incomplete: " + r.IncompleteReason
	}
}

func (r *Report) robots() string {
	switch r.Robots {
	case "found":
		return "found and kept to"
	case "missing":
		return "none, so everything is allowed"
	case "unavailable":
		return "the server failed to give it (5xx), so nothing may be fetched (RFC 9309)"
	default:
		return "not read yet when the crawl was stopped"
	}
}

func (b Broken) String() string {
	what := b.Error
	if b.Status != 0 {
		what = fmt.Sprint(b.Status)
	}
	text := fmt.Sprintf("%s (%s", brief(b.URL), brief(what))
	if b.RedirectedTo != "" {
		text += " at " + brief(b.RedirectedTo)
	}
	text += ")"
	if len(b.Referrers) > 0 {
		text += ", linked from " + brief(b.Referrers[0])
	}
	if more := len(b.Referrers) + b.ReferrersOmitted - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// brief shortens text that comes from a server, and takes out what a terminal would obey.
func brief(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
	if runes := []rune(s); len(runes) > textWidth {
		return string(runes[:textWidth]) + "…"
	}
	return s
}

func size(bytes int64) string {
	const kilo = 1000
	switch {
	case bytes >= kilo*kilo*kilo:
		return fmt.Sprintf("%.1f GB", float64(bytes)/(kilo*kilo*kilo))
	case bytes >= kilo*kilo:
		return fmt.Sprintf("%.1f MB", float64(bytes)/(kilo*kilo))
	case bytes >= kilo:
		return fmt.Sprintf("%.1f kB", float64(bytes)/kilo)
	default:
		return fmt.Sprintf("%d bytes", bytes)
	}
}
