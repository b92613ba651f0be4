//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := harness.Run(t.Context(), "", "helm", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ours lists what the release has made in the cluster, definitions left aside: these stay.
func ours(ctx context.Context, t *testing.T) []string {
	t.Helper()
	kinds := "deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings,pods"
	clusterKinds := "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
	var names []string
	for _, args := range [][]string{{"-n", harness.SystemNamespace, "get", kinds}, {"get", clusterKinds}} {
		out, err := harness.Run(ctx, "", "kubectl", append(args, "-l", "app.kubernetes.io/instance="+harness.Release, "-o", "name", "--ignore-not-found")...)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.Fields(out)...)
	}
	return names
}

func TestChartIsUpgradedUninstalledAndInstalledAgain(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	before := finish(t, agent, call(t, agent, "compute", `{"label":"before"}`))
	running := call(t, agent, "compute", `{"seconds":20,"label":"across"}`)

	helm(t, harness.HelmArgs("bridge.replicas=3", "controller.logLevel=debug")...)
	harness.Eventually(t, time.Minute, "three replicas", func(context.Context) error {
		if n := len(cluster.BridgePods(t)); n != 3 {
			return fmt.Errorf("%d are ready", n)
		}
		return nil
	})

	helm(t, "uninstall", harness.Release, "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m")
	harness.Eventually(t, time.Minute, "nothing is left of the release", func(ctx context.Context) error {
		if left := ours(ctx, t); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	kept := kubectl(t, "", "-n", namespace, "get", "mcptools,mcptasks", "-o", "name")
	if !strings.Contains(kept, "mcptool.mcptask.dev/compute") || !strings.Contains(kept, before.ID) {
		t.Errorf("tools and tasks are gone with the chart: %s", kept)
	}

	helm(t, harness.HelmArgs()...)
	cluster.AwaitTools(t, namespace)
	agent = cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	after, err := agent.GetTask(t.Context(), before.ID)
	if err != nil || string(after.Raw) != string(before.Raw) {
		t.Errorf("%v\nbefore %s\nafter  %s", err, before.Raw, after.Raw)
	}
	if task := finish(t, agent, running); task.Status != mcpclient.Completed {
		t.Errorf("the task that ran meanwhile: %s", task.Raw)
	}
}
