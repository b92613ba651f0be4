//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// passing is a tool whose tasks leave soon after they have ended.
const passing = `
apiVersion: mcptask.dev/v1alpha1
kind: McpTool
metadata: {name: output}
spec:
  description: Puts out what it is told to, and is forgotten soon.
  inputSchema: {type: object, required: [way, kind, bytes], properties: {way: {enum: [log, task]}, kind: {enum: [lines]}, bytes: {type: integer}}}
  pollInterval: 1s
  runtime: {enabled: true}
  retention: {completed: 20s, failed: 20s, cancelled: 20s, job: 0s}
  jobTemplate:
    spec:
      template:
        spec:
          terminationGracePeriodSeconds: 10
          containers:
          - name: work
            image: IMAGE
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}, runAsNonRoot: true}
            command: [/fixture, output, $(ARG_WAY), $(ARG_KIND), $(ARG_BYTES)]
`

// kept is what a bridge keeps of results that were asked for, at most (mcpbridge/tasks: 64 MiB ready to be sent, 16 MiB that stood in tasks),
// and as much again as its heap may grow for that before it is collected.
const kept = 160 << 20

// Of many tasks nothing is left once they have expired: no object in their namespace, no goroutine and no memory in the parts that served
// them. MANY=1000 makes more of them.
func TestNothingIsLeftOfManyTasks(t *testing.T) {
	cluster := connect(t)
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, passing)
	cluster.AwaitTools(t, namespace)
	n := 24
	if many := os.Getenv("MANY"); many != "" {
		var err error
		if n, err = strconv.Atoi(many); err != nil {
			t.Fatal(err)
		}
	}
	replicas := cluster.Replicas(t)
	addresses, before := metricsOf(t, cluster), map[string]footprint{}
	for part, address := range addresses {
		before[part] = footprintOf(t, address)
	}
	objects := objectsIn(t, cluster, namespace)
	var callers sync.WaitGroup
	var mu sync.Mutex
	var ids []string
	work := make(chan int)
	for i := range 8 {
		agent := cluster.Agent(t, replicas[i%len(replicas)], namespace, "agent", true)
		callers.Go(func() {
			for k := range work {
				id, err := pass(t.Context(), agent, k)
				if err != nil {
					t.Errorf("task %d (%s): %v", k, id, err)
				}
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	for k := range n {
		work <- k
	}
	close(work)
	callers.Wait()
	t.Logf("%d tasks ended within %s", n, time.Since(began).Round(time.Second))
	harness.Eventually(t, 2*time.Minute, "nothing is left of the tasks", func(context.Context) error {
		if now := objectsIn(t, cluster, namespace); !slices.Equal(now, objects) {
			return fmt.Errorf("the namespace has %v, and had %v", now, objects)
		}
		return nil
	})
	for _, replica := range replicas {
		agent := cluster.Agent(t, replica, namespace, "agent", true)
		for _, id := range ids[:min(len(ids), 15)] { // who asks for many tasks that are not there is slowed down
			_, err := agent.GetTask(t.Context(), id)
			refusedWith(t, err, -32602, "Unknown task")
		}
	}
	for part, was := range before {
		harness.Eventually(t, time.Minute, part+" is as it was", func(ctx context.Context) error {
			now := footprintOf(t, addresses[part])
			t.Logf("%s: resident %d → %d MiB, goroutines %d → %d", part, was.resident>>20, now.resident>>20, was.goroutines, now.goroutines)
			if now.goroutines > was.goroutines+20 || now.resident > was.resident+kept {
				return fmt.Errorf("it was %+v and is %+v", was, now)
			}
			return nil
		})
	}
}

// pass calls the tool once, and checks what comes of it. Every eighth task is cancelled.
func pass(ctx context.Context, agent *mcpclient.Client, k int) (id string, err error) {
	sizes := []int{100, 60_000} // the second is stored in Secrets
	arguments := fmt.Sprintf(`{"way":%q,"kind":"lines","bytes":%d}`, []string{"log", "task"}[k%2], sizes[k/2%2])
	called, err := agent.CallTool(ctx, "output", json.RawMessage(arguments), mcpclient.CallOptions{})
	if err != nil {
		return "", err
	}
	if called.Task == nil {
		return "", fmt.Errorf("the call was answered at once: %s", called.Result.Raw)
	}
	id = called.Task.ID
	if k%8 == 7 {
		if err := agent.CancelTask(ctx, id); err != nil {
			return id, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	task, err := agent.Wait(ctx, id, nil)
	switch {
	case err != nil:
		return id, err
	case k%8 == 7 && task.Status == mcpclient.Cancelled:
		return id, nil
	case task.Status != mcpclient.Completed || task.Result.IsError || len(task.Result.Raw) < sizes[k/2%2]:
		return id, fmt.Errorf("%.500s", task.Raw)
	}
	return id, nil
}

// objectsIn are the objects of a namespace as kind/name, of all kinds but Events, which the API server forgets by itself.
func objectsIn(t *testing.T, cluster *harness.Cluster, namespace string) (objects []string) {
	t.Helper()
	kinds, err := cluster.Kubernetes.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	all, err := metadata.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, kinds) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range list.APIResources {
			if kind.Kind == "Event" {
				continue
			}
			found, err := all.Resource(group.WithResource(kind.Name)).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", kind.Name, err)
			}
			for i := range found.Items {
				objects = append(objects, kind.Kind+"/"+found.Items[i].Name)
			}
		}
	}
	slices.Sort(objects)
	return objects
}

// footprint is what a process takes.
type footprint struct{ resident, goroutines int }

// metricsOf are the addresses of the metrics of the controller and of the bridge's replicas, by Pod.
func metricsOf(t *testing.T, cluster *harness.Cluster) map[string]string {
	t.Helper()
	pods, err := cluster.Kubernetes.CoreV1().Pods(harness.SystemNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component in (bridge, controller)"})
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			addresses[pod.Name] = harness.Forward(t, pod.Namespace, "pod/"+pod.Name, 8082)
		}
	}
	if len(addresses) < 3 {
		t.Fatalf("there are %v", addresses)
	}
	return addresses
}

func footprintOf(t *testing.T, address string) footprint {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) int {
		family, ok := families[name]
		if !ok {
			t.Fatalf("%s does not tell %s", address, name)
		}
		return int(family.Metric[0].GetGauge().GetValue())
	}
	return footprint{value("process_resident_memory_bytes"), value("go_goroutines")}
}
