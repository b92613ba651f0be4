//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/test/harness"
)

// enforcePolicies brings what enforces NetworkPolicies, where NETPOL_IMAGE says that the cluster does not, and in any case makes sure
// that they are enforced: a Pod that anybody reached is reached by nobody once a policy says so, from whichever of the nodes.
func enforcePolicies(t *testing.T, cluster *harness.Cluster, nodes []string) {
	t.Helper()
	if image := os.Getenv("NETPOL_IMAGE"); image != "" {
		installEnforcer(t, image)
	}
	namespace := cluster.Namespace(t)
	listens := restrictedPod([]string{"/site", "--addr=:8080"})
	listens.Namespace, listens.Labels, listens.Spec.NodeName = namespace, map[string]string{"app": "sealed"}, nodes[0]
	if err := cluster.Client.Create(t.Context(), listens); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the Pod that listens has an address", func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(listens), listens); err != nil {
			return err
		}
		if listens.Status.Phase != corev1.PodRunning || listens.Status.PodIP == "" {
			return fmt.Errorf("it is %s", listens.Status.Phase)
		}
		return nil
	})
	address := net.JoinHostPort(listens.Status.PodIP, "8080")
	openFrom := func() (open []string) {
		for _, pod := range dialFrom(t, cluster, nodes, caller{namespace: namespace}, []string{address}) {
			if dialled(t, cluster, pod)[address] {
				open = append(open, pod.Spec.NodeName)
			}
		}
		return open
	}
	harness.Eventually(t, time.Minute, "a Pod that no policy seals is reached from every node", func(context.Context) error {
		if open := openFrom(); len(open) != len(nodes) {
			return fmt.Errorf("it is from %v of %v", open, nodes)
		}
		return nil
	})
	kubectl(t, "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: sealed}\nspec: {podSelector: {matchLabels: {app: sealed}}, policyTypes: [Ingress]}\n",
		"-n", namespace, "apply", "-f", "-")
	harness.Eventually(t, time.Minute, "NetworkPolicies are not enforced: the cluster needs a network plugin that does, or NETPOL_IMAGE", func(context.Context) error {
		if open := openFrom(); len(open) != 0 {
			return fmt.Errorf("a Pod that a policy seals is reached by Pods on %v", open)
		}
		return nil
	})
}

// installEnforcer runs hack/netpol on every node until the test has ended.
func installEnforcer(t *testing.T, image string) {
	t.Helper()
	raw, err := os.ReadFile("netpol.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests := strings.ReplaceAll(string(raw), "NETPOL", image)
	t.Cleanup(func() { // the Pods end first, and take their rules with them
		for _, args := range [][]string{
			{"-n", "mcptask-netpol", "delete", "daemonset", "netpol", "--ignore-not-found", "--cascade=foreground", "--wait", "--timeout=60s"},
			{"delete", "--ignore-not-found", "--timeout=60s", "-f", "-"},
		} {
			if _, err := harness.Run(context.Background(), manifests, "kubectl", args...); err != nil {
				t.Error(err)
			}
		}
	})
	kubectl(t, manifests, "apply", "-f", "-")
	if out, err := harness.Run(t.Context(), "", "kubectl", "-n", "mcptask-netpol", "rollout", "status", "daemonset", "netpol", "--timeout=1m"); err != nil {
		said, _ := harness.Run(t.Context(), "", "kubectl", "-n", "mcptask-netpol", "logs", "daemonset/netpol", "--tail=20")
		t.Fatalf("nothing enforces NetworkPolicies: %v\n%s\n%s", err, out, said)
	}
}
