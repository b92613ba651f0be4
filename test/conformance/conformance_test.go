//go:build e2e

// Package conformance runs the official MCP conformance suite against the installed bridge, both replicas of it in
// turn, with real Jobs as the suite's tools.
package conformance

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/test/conformance/suite"
	"github.com/mcptask/mcptask/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

var scenarios = []string{
	"tasks-lifecycle",
	"tasks-capability-negotiation",
	"tasks-wire-fields",
	"tasks-request-state-removal",
	"tasks-mrtr-input",
	"tasks-mrtr-composition",
	"tasks-request-headers",
	"tasks-required-task-error",
	"tasks-dispatch-and-envelope",
}

func TestConformance(t *testing.T) {
	cluster, err := harness.Connect()
	if err != nil {
		t.Fatal(err)
	}
	installed := suite.Install(t, ".")
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
			checks := installed.Run(t, url, "--scenario", scenario, "--timeout", "180000")[scenario]
			succeeded := 0
			for _, c := range checks {
				if c.Status == "SUCCESS" {
					succeeded++
				}
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
			if succeeded == 0 {
				t.Error("no check succeeded")
			}
			t.Logf("%d checks", len(checks))
		})
	}
}

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
