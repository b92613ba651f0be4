//go:build e2e

// Package e2e holds the tests that need nodes: the chart installed as users install it, real Pods, real tokens, two
// replicas of the bridge.
package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func connect(t *testing.T) *harness.Cluster {
	t.Helper()
	cluster, err := harness.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// withTools is a namespace with the tools of tools.yaml, all of them ready.
func withTools(t *testing.T, cluster *harness.Cluster, names ...string) string {
	t.Helper()
	namespace := cluster.Namespace(t)
	raw, err := os.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, manifest := range strings.Split(string(raw), "\n---\n") {
		for _, name := range names {
			if strings.Contains(manifest, "metadata: {name: "+name+"}") {
				wanted = append(wanted, manifest)
			}
		}
	}
	if len(wanted) != len(names) {
		t.Fatalf("tools.yaml has %d of the tools %v", len(wanted), names)
	}
	cluster.Apply(t, namespace, strings.Join(wanted, "\n---\n"))
	cluster.AwaitTools(t, namespace)
	return namespace
}
