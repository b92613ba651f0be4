//go:build e2e && network

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// enforcePolicies brings what enforces NetworkPolicies, where NETPOL_IMAGE says that the cluster does not.
func enforcePolicies(t *testing.T) {
	t.Helper()
	image := os.Getenv("NETPOL_IMAGE")
	if image == "" {
		return
	}
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

// apiServer are the egress rules that let Pods reach the API server, for which policies have no name.
func apiServer(t *testing.T, cluster *harness.Cluster) string {
	t.Helper()
	var slices discoveryv1.EndpointSliceList
	if err := cluster.Client.List(t.Context(), &slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				rules = append(rules, fmt.Sprintf("{to: [{ipBlock: {cidr: %s/32}}], ports: [{port: %d}]}", address, *slice.Ports[0].Port))
			}
		}
	}
	return "[" + strings.Join(rules, ", ") + "]"
}

// doors are the addresses of both parts' Pods, and of the bridge's Services, by what they are for.
func doors(t *testing.T, cluster *harness.Cluster) map[string]string {
	t.Helper()
	all := map[string]string{}
	bridge := cluster.BridgePods(t)[0].Status.PodIP
	for name, port := range map[string]string{"bridge mcp": "8080", "bridge health": "8081", "bridge metrics": "8082", "bridge runtime": "8083"} {
		all[name] = net.JoinHostPort(bridge, port)
	}
	var controllers corev1.PodList
	if err := cluster.Client.List(t.Context(), &controllers, client.InNamespace(harness.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": "controller"}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range controllers.Items {
		if pod.DeletionTimestamp == nil {
			all["controller metrics"], all["controller health"] = net.JoinHostPort(pod.Status.PodIP, "8082"), net.JoinHostPort(pod.Status.PodIP, "8081")
		}
	}
	for name, of := range map[string]string{"service mcp": "-bridge", "service runtime": "-bridge-runtime"} {
		var service corev1.Service
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: harness.SystemNamespace, Name: harness.Release + of}, &service); err != nil {
			t.Fatal(err)
		}
		all[name] = net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].Port))
	}
	return all
}

type reached struct {
	Reached map[string]bool `json:"reached"`
}

// through says which doors are open, by their names.
func (r reached) through(doors map[string]string) map[string]bool {
	open := map[string]bool{}
	for name, address := range doors {
		if r.Reached[address] {
			open[name] = true
		}
	}
	return open
}

// podReaches runs a Pod with the labels that tries all the doors.
func podReaches(t *testing.T, cluster *harness.Cluster, namespace string, labels map[string]string, doors map[string]string) map[string]bool {
	t.Helper()
	command := []string{"/fixture", "dial"}
	for _, address := range doors {
		command = append(command, address)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "dial-", Namespace: namespace, Labels: labels},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "dial", Image: harness.ExamplesImage(), Command: command,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}}},
	}
	if err := cluster.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 2*time.Minute, "the Pod has tried all addresses", func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	logs, err := cluster.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	raw, err := io.ReadAll(logs)
	if err != nil {
		t.Fatal(err)
	}
	var got reached
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return got.through(doors)
}

func open(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

func sameDoors(t *testing.T, who string, got, want map[string]bool) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s reaches %v, and should reach %v", who, got, want)
	}
}

// Every Pod tries every door: first without policies, so that a closed door is known to be closed by them.
func TestNetworkPoliciesLetInWhomTheyShould(t *testing.T) {
	cluster := connect(t)
	enforcePolicies(t)
	namespace, monitoring := withTools(t, cluster, "reach"), cluster.Namespace(t)
	before := podReaches(t, cluster, namespace, nil, doors(t, cluster))
	sameDoors(t, "without policies any Pod", before, open("bridge mcp", "bridge health", "bridge metrics", "bridge runtime",
		"controller metrics", "controller health", "service mcp", "service runtime"))

	upgraded(t, fmt.Sprintf(`
networkPolicy:
  enabled: true
  metrics: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}]
  egress: %s
`, monitoring, apiServer(t, cluster)))
	cluster.AwaitBridge(t)
	all := doors(t, cluster)

	if agents := podReaches(t, cluster, namespace, nil, all); len(agents) == len(before) {
		t.Fatal("the cluster does not enforce NetworkPolicies: set NETPOL_IMAGE, as make test-e2e does for a local cluster")
	}
	sameDoors(t, "an agent", podReaches(t, cluster, namespace, nil, all), open("bridge mcp", "service mcp"))
	sameDoors(t, "monitoring", podReaches(t, cluster, monitoring, nil, all), open("bridge mcp", "service mcp", "bridge metrics", "controller metrics"))
	sameDoors(t, "a Pod that says it is a task's", podReaches(t, cluster, namespace, map[string]string{v1alpha1.LabelTask: "x"}, all), open("bridge runtime", "service runtime"))

	// A real task, whose sidecar and whose controller work behind the policies.
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	addresses := []string{}
	for _, address := range all {
		addresses = append(addresses, address)
	}
	arguments, err := json.Marshal(map[string]any{"addresses": addresses})
	if err != nil {
		t.Fatal(err)
	}
	task := finish(t, agent, call(t, agent, "reach", string(arguments)))
	if task.Status != mcpclient.Completed {
		t.Fatalf("%s", task.Raw)
	}
	var got reached
	if err := json.Unmarshal(task.Result.StructuredContent, &got); err != nil {
		t.Fatalf("%v in %s", err, task.Raw)
	}
	sameDoors(t, "a task", got.through(all), open("bridge runtime", "service runtime"))
	if progress := stored(t, cluster, namespace, task.ID).Status.Progress; progress == nil {
		t.Error("nothing came through the runtime port")
	}
}
