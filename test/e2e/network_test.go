//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
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

// What there is to reach, of every Pod of both parts and of the Services.
const (
	mcpPort     = "the MCP port"
	runtimePort = "the runtime port"
	metricsPort = "the metrics port"
	healthPort  = "the health port"
)

// doors are the addresses of all that, and what is behind each.
func doors(t *testing.T, cluster *harness.Cluster) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pod := range cluster.BridgePods(t) {
		for port, behind := range map[string]string{"8080": mcpPort, "8081": healthPort, "8082": metricsPort, "8083": runtimePort} {
			all[net.JoinHostPort(pod.Status.PodIP, port)] = behind
		}
	}
	controller := controllerPod(t, cluster)
	all[net.JoinHostPort(controller.Status.PodIP, "8081")], all[net.JoinHostPort(controller.Status.PodIP, "8082")] = healthPort, metricsPort
	for name, behind := range map[string]string{"-bridge": mcpPort, "-bridge-runtime": runtimePort} {
		var service corev1.Service
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: harness.SystemNamespace, Name: harness.Release + name}, &service); err != nil {
			t.Fatal(err)
		}
		all[net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].Port))] = behind
	}
	return all
}

func controllerPod(t *testing.T, cluster *harness.Cluster) corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := cluster.Client.List(t.Context(), &pods, client.InNamespace(harness.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": "controller"}); err != nil {
		t.Fatal(err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(pods.Items) != 1 {
		t.Fatalf("there are %d Pods of the controller", len(pods.Items))
	}
	return pods.Items[0]
}

// besideAndAway are the controller's node and, where there is one, another: what the Pods of both reach has been tried within a node
// and between two.
func besideAndAway(t *testing.T, cluster *harness.Cluster) []string {
	t.Helper()
	nodes := []string{controllerPod(t, cluster).Spec.NodeName}
	var all corev1.NodeList
	if err := cluster.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, node := range all.Items {
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ready && !node.Spec.Unschedulable && node.Name != nodes[0] {
			return append(nodes, node.Name)
		}
	}
	t.Log("there is one node: connections between nodes are not tried")
	return nodes
}

// A caller is a kind of Pod, and what it should reach.
type caller struct {
	who       string
	namespace string
	labels    map[string]string
	reaches   []string
}

func restrictedPod(command []string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "network-"},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers: []corev1.Container{{Name: "network", Image: harness.ExamplesImage(), Command: command,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}}},
	}
}

// dialFrom starts such a Pod on each node, which tries the addresses.
func dialFrom(t *testing.T, cluster *harness.Cluster, nodes []string, from caller, addresses []string) (pods []*corev1.Pod) {
	t.Helper()
	for _, node := range nodes {
		pod := restrictedPod(append([]string{"/fixture", "dial"}, addresses...))
		pod.Namespace, pod.Labels, pod.Spec.NodeName = from.namespace, from.labels, node
		if err := cluster.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	return pods
}

// dialled says which of its addresses such a Pod reached.
func dialled(t *testing.T, cluster *harness.Cluster, pod *corev1.Pod) map[string]bool {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, "the Pod has tried all addresses", func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	raw, err := cluster.Kubernetes.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return reached(t, raw)
}

// reached is what the fixture says that it reached.
func reached(t *testing.T, raw []byte) map[string]bool {
	t.Helper()
	var said struct {
		Reached map[string]bool `json:"reached"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return said.Reached
}

// checkDoors says which doors are open that should be closed, and closed that should be open.
func checkDoors(t *testing.T, who string, all map[string]string, got map[string]bool, reaches []string) {
	t.Helper()
	for address, behind := range all {
		open, tried := got[address]
		switch should := slices.Contains(reaches, behind); {
		case !tried:
			t.Errorf("%s did not try %s at %s", who, behind, address)
		case open && !should:
			t.Errorf("%s reaches %s at %s", who, behind, address)
		case !open && should:
			t.Errorf("%s does not reach %s at %s", who, behind, address)
		}
	}
}

// try lets each caller try every door from every node, all at once.
func try(t *testing.T, cluster *harness.Cluster, nodes []string, callers ...caller) {
	t.Helper()
	all := doors(t, cluster)
	addresses := slices.Collect(maps.Keys(all))
	pods := make([][]*corev1.Pod, len(callers))
	for i, from := range callers {
		pods[i] = dialFrom(t, cluster, nodes, from, addresses)
	}
	for i, from := range callers {
		for _, pod := range pods[i] {
			checkDoors(t, from.who+" on "+pod.Spec.NodeName, all, dialled(t, cluster, pod), from.reaches)
		}
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

// Every Pod tries every door, from two nodes: first without policies, so that a closed door is known to be closed by them.
func TestNetworkPoliciesLetInWhomTheyShould(t *testing.T) {
	cluster := connect(t)
	namespace, strangers, monitoring := withTools(t, cluster, "reach"), cluster.Namespace(t), cluster.Namespace(t)
	nodes := besideAndAway(t, cluster)
	enforcePolicies(t, cluster, nodes)
	try(t, cluster, nodes, caller{"without policies any Pod", namespace, nil, []string{mcpPort, runtimePort, metricsPort, healthPort}})

	values := fmt.Sprintf(`
networkPolicy:
  enabled: true
  metrics: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}]
  egress: %s
`, monitoring, apiServer(t, cluster))
	upgraded(t, values)
	cluster.AwaitBridge(t)
	try(t, cluster, nodes,
		caller{"an agent", namespace, nil, []string{mcpPort}},
		caller{"monitoring", monitoring, nil, []string{mcpPort, metricsPort}},
		caller{"a Pod that says it is a task's", namespace, map[string]string{v1alpha1.LabelTask: "x"}, []string{runtimePort}},
		caller{"a Pod of monitoring that says it is a task's", monitoring, map[string]string{v1alpha1.LabelTask: "x"}, []string{runtimePort, metricsPort}})
	aTaskReachesItsSidecarsPortAlone(t, cluster, namespace)

	upgraded(t, values+fmt.Sprintf("  agents: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}]\n", namespace))
	try(t, cluster, nodes,
		caller{"an agent whom the values name", namespace, nil, []string{mcpPort}},
		caller{"a stranger", strangers, nil, nil},
		caller{"monitoring, whom the values do not name an agent", monitoring, nil, []string{metricsPort}})

	// No Pod reached the health ports, the nodes' probes did all the time.
	if len(cluster.BridgePods(t)) < 2 || !podReady(controllerPod(t, cluster)) {
		t.Error("a Pod behind the policies is not ready any more")
	}
}

func podReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// aTaskReachesItsSidecarsPortAlone calls a tool, whose Pod, whose sidecar and whose controller work behind the policies.
func aTaskReachesItsSidecarsPortAlone(t *testing.T, cluster *harness.Cluster, namespace string) {
	t.Helper()
	all := doors(t, cluster)
	arguments, err := json.Marshal(map[string]any{"addresses": slices.Collect(maps.Keys(all))})
	if err != nil {
		t.Fatal(err)
	}
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	task := finish(t, agent, call(t, agent, "reach", string(arguments)))
	if task.Status != mcpclient.Completed {
		t.Fatalf("%s", task.Raw)
	}
	checkDoors(t, "a task", all, reached(t, task.Result.StructuredContent), []string{runtimePort})
	if progress := stored(t, cluster, namespace, task.ID).Status.Progress; progress == nil {
		t.Error("nothing came through the runtime port")
	}
}
