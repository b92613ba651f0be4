package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/examples/crawl/report"
	"github.com/mcptask/mcptask/examples/crawl/site"
)

// exact is a truth, and the report that says the same.
func exact() (*report.Report, *site.Truth) {
	truth := &site.Truth{
		Pages: 10, Files: 2, Fetched: 15, Bytes: 1000, BrokenTotal: 2, MaxDepthReached: 4,
		StatusClasses: site.StatusClasses{S2xx: 12, S3xx: 1, S4xx: 1, S5xx: 1}, Skipped: site.Skipped{Robots: 1, Offsite: 3},
		Broken: []site.BrokenTruth{{Path: "/gone/1", Status: 404, Referrers: 3}, {Path: "/loop/2", Error: "redirect loop", Referrers: 1}},
	}
	found := &report.Report{
		Complete: true, Pages: 10, Files: 2, Fetched: 15, Bytes: 1000, BrokenTotal: 2, MaxDepthReached: 4,
		StatusClasses: report.StatusClasses{S2xx: 12, S3xx: 1, S4xx: 1, S5xx: 1}, Skipped: report.Skipped{Robots: 1, Offsite: 3},
		Broken: []report.Broken{
			{URL: "http://site/gone/1", Status: 404, Referrers: []string{"http://site/"}, ReferrersOmitted: 2},
			{URL: "http://site/loop/2", Error: "redirect loop", Referrers: []string{"http://site/"}},
		},
	}
	return found, truth
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*report.Report)
		exact  bool
	}{
		"the same":                  {func(*report.Report) {}, true},
		"a broken link not listed":  {func(r *report.Report) { r.Broken, r.BrokenOmitted = r.Broken[:1], 1 }, true},
		"not complete":              {func(r *report.Report) { r.Complete = false }, false},
		"one byte less":             {func(r *report.Report) { r.Bytes-- }, false},
		"a network error":           {func(r *report.Report) { r.StatusClasses.Error = 1 }, false},
		"a page limit":              {func(r *report.Report) { r.Skipped.Limit = 1 }, false},
		"another status":            {func(r *report.Report) { r.Broken[0].Status = 410 }, false},
		"a page more with the link": {func(r *report.Report) { r.Broken[0].ReferrersOmitted++ }, false},
		"one link listed twice":     {func(r *report.Report) { r.Broken[1] = r.Broken[0] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			found, truth := exact()
			c.change(found)
			var out strings.Builder
			if got := write(&out, compare(found, truth)); got != c.exact || got == strings.Contains(out.String(), "differs") {
				t.Errorf("exact is %v\n%s", got, out.String())
			}
		})
	}
}

func TestRead(t *testing.T) {
	found, truth := exact()
	file := func(name string, value any) string {
		t.Helper()
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	truthFile := file("truth", truth)
	if got, _, err := read(file("result", map[string]any{"structuredContent": found}), truthFile); err != nil || got.Pages != 10 {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, result := range map[string]any{
		"a tool error": map[string]any{"isError": true, "structuredContent": found},
		"a task":       map[string]any{"taskId": "t1"},
		"no object":    "text",
	} {
		if _, _, err := read(file("result", result), truthFile); err == nil {
			t.Errorf("%s was taken for a result", name)
		}
	}
}
