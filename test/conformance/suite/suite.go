// Package suite runs the official MCP conformance suite and reads its verdicts.
package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// patience is how long a run may take.
const patience = 4 * time.Minute

// Suite is the installed suite.
type Suite struct{ folder string }

// Check is one verdict, from a checks.json.
type Check struct {
	ID           string `json:"id"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	ErrorMessage string `json:"errorMessage"`
}

// Install installs what package-lock.json in the folder names, unless it is installed: the suite, and the Node.js it needs.
func Install(t *testing.T, folder string) Suite {
	t.Helper()
	s := Suite{folder: folder}
	wanted, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	// npm writes this file last of all.
	if installed, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err == nil && installed.ModTime().After(wanted.ModTime()) {
		return s
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("the conformance suite comes from npm: install npm (Debian: apt-get install npm)")
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return s
}

// Requirements is the file that says what a revision of the protocol requires.
func (s Suite) Requirements(revision string) string {
	return filepath.Join(s.program(), "requirements", revision+".yaml")
}

func (s Suite) program() string {
	return filepath.Join(s.folder, "node_modules", "@modelcontextprotocol", "conformance")
}

// result is the name of a folder of results: the role, the scenario and the time.
var result = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[^/]*$`)

// Run runs the suite against the server at the URL and returns the verdicts by scenario. They are all that counts: the
// suite's exit code is 0 even when checks of an extension fail.
func (s Suite) Run(t *testing.T, url string, args ...string) map[string][]Check {
	t.Helper()
	results := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := append([]string{filepath.Join(s.program(), "dist", "index.js"), "server", "--url", url, "-o", results}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(s.folder, "node_modules", "node", "bin", "node"), all...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	found, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil || len(found) == 0 || ctx.Err() != nil {
		t.Fatalf("the suite left %d results: %v %v %v\n%s", len(found), err, runErr, ctx.Err(), tail(out.String()))
	}
	verdicts := map[string][]Check{}
	for _, file := range found {
		name := result.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			t.Fatalf("the suite left results in %s, which names no scenario", file)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []Check
		if err := json.Unmarshal(raw, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		verdicts[name[1]] = checks
	}
	return verdicts
}

func tail(s string) string { return s[max(0, len(s)-4000):] }
