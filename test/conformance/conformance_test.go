//go:build e2e

// Package conformance runs the official MCP conformance suite against the installed bridge, both replicas of it in
// turn, with real Jobs as the suite's tools.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

var scenarios = []string{
	"tasks-lifecycle",
	"tasks-capability-negotiation",
	"tasks-wire-fields",
	"tasks-request-state-removal",
	"tasks-request-headers",
	"tasks-required-task-error",
	"tasks-dispatch-and-envelope",
}

// check is one verdict of the suite, from its checks.json.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

func TestConformance(t *testing.T) {
	cluster, err := harness.Connect()
	if err != nil {
		t.Fatal(err)
	}
	suite := installSuite(t)
	namespace := cluster.Namespace(t)
	tools, err := os.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, namespace, string(tools))
	cluster.AwaitTools(t, namespace)
	url := cluster.Balanced(t, cluster.Token(t, namespace, "agent", harness.Audience(namespace))) + "/mcp/" + namespace
	expected := expectedFailures(t)
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			checks := suite.run(t, url, scenario)
			for _, c := range checks {
				why, known := expected[scenario+"/"+c.ID]
				switch {
				case c.Status == "FAILURE" && !known:
					t.Errorf("%s: %s", c.ID, c.ErrorMessage)
				case c.Status == "FAILURE":
					t.Logf("%s fails as expected: %s", c.ID, why)
				case c.Status == "SUCCESS" && known:
					t.Errorf("%s succeeds: take it off expected-failures.yaml", c.ID)
				case c.Status == "SKIPPED" && !known:
					t.Errorf("%s was skipped: %s", c.ID, c.ErrorMessage)
				}
			}
			t.Logf("%d checks", len(checks))
		})
	}
}

// suite is the installed suite.
type suite struct{ node, program string }

// installSuite installs what package-lock.json names: the suite, and the Node.js it needs.
func installSuite(t *testing.T) suite {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("the conformance suite comes from npm: install npm (Debian: apt-get install npm)")
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--prefer-offline")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return suite{node: "node_modules/node/bin/node", program: "node_modules/@modelcontextprotocol/conformance/dist/index.js"}
}

// run runs one scenario and reads its verdicts: the suite's exit code is 0 even when checks fail.
func (s suite) run(t *testing.T, url, scenario string) []check {
	t.Helper()
	results := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, s.program, "server", "--url", url, "--scenario", scenario, "--timeout", "180000", "-o", results)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	found, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the suite left %d results: %v %v\n%s", len(found), err, runErr, tail(out.String()))
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []check
	if err := json.Unmarshal(raw, &checks); err != nil {
		t.Fatal(err)
	}
	succeeded := 0
	for _, c := range checks {
		if c.Status == "SUCCESS" {
			succeeded++
		}
	}
	if succeeded == 0 {
		t.Errorf("no check succeeded\n%s", tail(out.String()))
	}
	return checks
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// expectedFailures are the checks that fail for a reason that is known, by scenario/check.
func expectedFailures(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("expected-failures.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var failures map[string]string
	if err := yaml.UnmarshalStrict(raw, &failures); err != nil {
		t.Fatal(err)
	}
	for name, why := range failures {
		if strings.TrimSpace(why) == "" {
			t.Errorf("expected-failures.yaml: %s has no reason", name)
		}
	}
	return failures
}
