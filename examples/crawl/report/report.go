// Package report turns what a crawl found into the tool's output: a text for people and one line of JSON for programs.
// The JSON is a public contract; its schema is the outputSchema in tool.yaml.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mcptask/mcptask/examples/crawl/crawler"
)

// MaxJSON bounds the JSON line, with its line end, in bytes.
const MaxJSON = 12 << 10

// Report is the JSON object.
type Report struct {
	Start            string        `json:"start"`
	Complete         bool          `json:"complete"`
	IncompleteReason string        `json:"incompleteReason,omitempty"`
	Robots           string        `json:"robots"`
	Pages            int           `json:"pages"`
	Files            int           `json:"files"`
	Fetched          int           `json:"fetched"`
	Bytes            int64         `json:"bytes"`
	Oversized        int           `json:"oversized"`
	StatusClasses    StatusClasses `json:"statusClasses"`
	Skipped          Skipped       `json:"skipped"`
	MaxDepthReached  int           `json:"maxDepthReached"`
	DurationMs       int64         `json:"durationMs"`
	BrokenTotal      int           `json:"brokenTotal"`
	Broken           []Broken      `json:"broken"`
	BrokenOmitted    int           `json:"brokenOmitted"`
}

// StatusClasses counts fetched URLs by what they answered.
type StatusClasses struct {
	S2xx  int `json:"2xx"`
	S3xx  int `json:"3xx"`
	S4xx  int `json:"4xx"`
	S5xx  int `json:"5xx"`
	Error int `json:"error"`
}

// Skipped counts the URLs that were found but not fetched.
type Skipped struct {
	Robots      int `json:"robots"`
	Depth       int `json:"depth"`
	Limit       int `json:"limit"`
	Offsite     int `json:"offsite"`
	Interrupted int `json:"interrupted"`
	Invalid     int `json:"invalid"`
}

// Broken is one broken link; it has either a status or an error.
type Broken struct {
	URL              string   `json:"url"`
	Status           int      `json:"status,omitempty"`
	Error            string   `json:"error,omitempty"`
	RedirectedTo     string   `json:"redirectedTo,omitempty"`
	Referrers        []string `json:"referrers"`
	ReferrersOmitted int      `json:"referrersOmitted"`
}

// New makes the report of a crawl, with as many broken links as fit into MaxJSON.
func New(result *crawler.Result) (*Report, error) {
	r := &Report{
		Start:            result.Start,
		Complete:         result.Incomplete == "",
		IncompleteReason: string(result.Incomplete),
		Robots:           string(result.Robots),
		Pages:            result.Pages,
		Files:            result.Files,
		Fetched:          result.Fetched,
		Bytes:            result.Bytes,
		Oversized:        result.Oversized,
		StatusClasses:    StatusClasses(result.Classes),
		Skipped:          Skipped(result.Skipped),
		MaxDepthReached:  result.MaxDepth,
		DurationMs:       result.Duration.Milliseconds(),
		BrokenTotal:      len(result.Broken),
		Broken:           []Broken{},
		BrokenOmitted:    len(result.Broken),
	}
	return r, r.fill(result.Broken)
}

// fill lists broken links until the JSON is full. More links with fewer referrers each tell more than few links with
// many, so referrers go first: each link keeps as many as let all links be listed, but at least one. What still does
// not fit is left out from the end.
func (r *Report) fill(found []crawler.Broken) error {
	empty, err := line(r)
	if err != nil {
		return err
	}
	// BrokenOmitted only shrinks from here, so its digits are already paid for.
	room := MaxJSON - len(empty)
	for referrers := crawler.MaxReferrers; referrers >= 1; referrers-- {
		r.Broken, err = fitting(found, referrers, room)
		if err != nil {
			return err
		}
		r.BrokenOmitted = len(found) - len(r.Broken)
		if r.BrokenOmitted == 0 {
			return nil
		}
	}
	return nil
}

// fitting returns the first entries whose JSON, with the commas between them, fits into room bytes.
func fitting(found []crawler.Broken, referrers, room int) ([]Broken, error) {
	entries := []Broken{}
	for _, b := range found {
		shown := b.Referrers[:min(referrers, len(b.Referrers))]
		entry := Broken{
			URL:              b.URL,
			Status:           b.Status,
			Error:            b.Error,
			RedirectedTo:     b.RedirectedTo,
			Referrers:        append([]string{}, shown...),
			ReferrersOmitted: b.ReferrerCount - len(shown),
		}
		text, err := line(entry)
		if err != nil {
			return nil, err
		}
		// The line end of the entry's own line stands for the comma.
		if room -= len(text); room < 0 {
			break
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// WriteJSON writes the report as one line.
func (r *Report) WriteJSON(w io.Writer) error {
	text, err := line(r)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// line encodes without the escapes that JSON inside HTML would need: URLs are full of "&".
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	return b.Bytes(), nil
}
