// Command check compares what the crawl tool found with what the made-up site says is to be found.
//
//	check RESULT TRUTH
//
// RESULT is what "mcptask call crawl -o json" printed, TRUTH the site's /truth.json. The exit code is 0 when every number
// is the same, 1 when one differs, 2 when a file cannot be read.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/mcptask/mcptask/examples/crawl/report"
	"github.com/mcptask/mcptask/examples/crawl/site"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: check RESULT TRUTH")
		os.Exit(2)
	}
	found, truth, err := read(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
	if !write(os.Stdout, compare(found, truth)) {
		os.Exit(1)
	}
}

func read(resultFile, truthFile string) (*report.Report, *site.Truth, error) {
	var result struct {
		IsError           bool           `json:"isError"`
		StructuredContent *report.Report `json:"structuredContent"`
	}
	truth := &site.Truth{}
	if err := readJSON(resultFile, &result); err != nil {
		return nil, nil, err
	}
	if err := readJSON(truthFile, truth); err != nil {
		return nil, nil, err
	}
	if result.IsError || result.StructuredContent == nil {
		return nil, nil, fmt.Errorf("%s is not the result of a crawl that worked", resultFile)
	}
	return result.StructuredContent, truth, nil
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// line is one comparison.
type line struct{ what, found, truth string }

// compare sets every number of the truth against what was found, and the broken links one by one.
func compare(found *report.Report, truth *site.Truth) []line {
	lines := []line{}
	add := func(what string, found, truth any) {
		lines = append(lines, line{what, fmt.Sprint(found), fmt.Sprint(truth)})
	}
	add("complete", found.Complete, true)
	add("HTML pages", found.Pages, truth.Pages)
	add("other files", found.Files, truth.Files)
	add("URLs fetched", found.Fetched, truth.Fetched)
	add("bytes", found.Bytes, truth.Bytes)
	add("2xx answers", found.StatusClasses.S2xx, truth.StatusClasses.S2xx)
	add("3xx answers", found.StatusClasses.S3xx, truth.StatusClasses.S3xx)
	add("4xx answers", found.StatusClasses.S4xx, truth.StatusClasses.S4xx)
	add("5xx answers", found.StatusClasses.S5xx, truth.StatusClasses.S5xx)
	add("network errors", found.StatusClasses.Error, 0)
	add("kept out by robots.txt", found.Skipped.Robots, truth.Skipped.Robots)
	add("on other sites", found.Skipped.Offsite, truth.Skipped.Offsite)
	add("left out for limits", found.Skipped.Depth+found.Skipped.Limit+found.Skipped.Interrupted, 0)
	add("farthest from the start", found.MaxDepthReached, truth.MaxDepthReached)
	add("broken links", found.BrokenTotal, truth.BrokenTotal)
	add("broken links as listed", listed(found, truth), len(truth.Broken)-found.BrokenOmitted)
	return lines
}

// listed counts the broken links of the report that are as the truth has them: the path, the answer, and how many pages
// hold the link.
func listed(found *report.Report, truth *site.Truth) int {
	known := map[string]site.BrokenTruth{}
	for _, broken := range truth.Broken {
		known[broken.Path] = broken
	}
	right := 0
	for _, broken := range found.Broken {
		u, err := url.Parse(broken.URL)
		if err != nil {
			continue
		}
		want, ok := known[u.Path]
		delete(known, u.Path)
		if ok && broken.Status == want.Status && broken.Error == want.Error &&
			len(broken.Referrers)+broken.ReferrersOmitted == want.Referrers {
			right++
		}
	}
	return right
}

// write prints the comparisons and says whether all agree.
func write(w io.Writer, lines []line) bool {
	exact := true
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcrawl\ttruth\t")
	for _, l := range lines {
		mark := ""
		if l.found != l.truth {
			mark, exact = "  <- differs", false
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.what, l.found, l.truth, mark)
	}
	table.Flush()
	return exact
}
