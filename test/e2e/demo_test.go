//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/test/harness"
)

// The demo is what a newcomer runs first: a site of 10,000 pages, crawled by a real tool, with numbers that come out exactly.
func TestDemo(t *testing.T) {
	cluster := connect(t)
	namespace := cluster.Namespace(t)
	program := filepath.Join(t.TempDir(), "mcptask")
	if _, err := harness.Run(t.Context(), "", "go", "build", "-o", program, "./cmd/mcptask"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "hack/demo/run.sh")
	cmd.Dir = harness.Root()
	cmd.Env = append(os.Environ(), "MCPTASK="+program, "DEMO_NAMESPACE="+namespace, "EXAMPLES_IMAGE="+harness.ExamplesImage())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The demo's numbers are exact.") {
		t.Errorf("%v\n%s", err, out)
	}
}
