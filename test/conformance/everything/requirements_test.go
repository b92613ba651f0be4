//go:build e2e

package main

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/test/conformance/suite"
)

// skipped are the checks that the suite itself leaves out, with the reason. Every other check must succeed.
var skipped = map[string]string{
	"server-stateless/sep-2575-server-sends-prompts-list-changed-on-subscription": "a bridge has no prompts whose list could change",
	"tasks-status-notifications/tasks-status-notifications":                       "the suite has yet to write it",
	"server-session-lifecycle/server-session-delete-accepted":                     "sessions are kept nowhere, so there is nothing to delete",
	"server-session-lifecycle/server-session-terminated-returns-404":              "the same",
}

// TestFullRequirements runs all that the suite requires of a server of a revision, and all that it runs beside it
// without scoring it: extensions, and what it marks as pending.
func TestFullRequirements(t *testing.T) {
	installed := suite.Install(t, "..")
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			e, err := newEverything(slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(e.front)
			t.Cleanup(server.Close)
			t.Cleanup(e.endpoint.Drain) // ends the streams, which the server waits for
			verdicts := installed.Run(t, server.URL+"/mcp", "--requirements", revision)
			succeeded := 0
			for _, scenario := range required(t, installed.Requirements(revision)) {
				checks, ran := verdicts[scenario]
				if !ran || len(checks) == 0 {
					t.Errorf("%s: there are no results", scenario)
				}
				for _, c := range checks {
					name := scenario + "/" + c.ID
					switch {
					case c.Status == "SUCCESS":
						succeeded++
					case c.Status == "INFO":
					case c.Status == "SKIPPED" && skipped[name] != "":
						t.Logf("%s is skipped: %s", name, skipped[name])
					default:
						t.Errorf("%s: %s: %s", name, c.Status, c.ErrorMessage)
					}
				}
			}
			t.Logf("%d checks succeeded in %d scenarios", succeeded, len(verdicts))
			passed := e.answered()
			for _, what := range slices.Sorted(maps.Keys(passed)) {
				t.Logf("answered by the fixtures: %d × %s", passed[what], what)
			}
		})
	}
}

// required are the scenarios for servers in a file of requirements.
func required(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var requirements struct {
		Server    []string `json:"server"`
		NotScored []struct {
			Scenario string `json:"scenario"`
			Leg      string `json:"leg"`
		} `json:"not_scored"`
	}
	if err := yaml.Unmarshal(raw, &requirements); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", file, err))
	}
	scenarios := requirements.Server
	for _, other := range requirements.NotScored {
		if other.Leg == "server" {
			scenarios = append(scenarios, other.Scenario)
		}
	}
	if len(scenarios) == 0 {
		t.Fatalf("%s requires nothing", file)
	}
	return scenarios
}
