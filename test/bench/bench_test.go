//go:build e2e

// Package bench measures what mcptask adds to what Kubernetes takes anyway. Each measure stands beside its baseline, the two
// taken in turn in the same run, as a ratio with its spread. Nothing fails by being slow.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

type bench struct {
	cluster   *harness.Cluster
	namespace string
	agent     *mcpclient.Client
}

func start(t *testing.T) *bench {
	cluster, err := harness.Connect()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{cluster: cluster, namespace: cluster.Namespace(t)}
	tool, err := os.ReadFile("tool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, b.namespace, string(tool))
	cluster.AwaitTools(t, b.namespace)
	b.agent = cluster.Agent(t, b.replica(t), b.namespace, "agent", true)
	return b
}

// replica is a bridge's Pod, without a forwarder between where this machine reaches Pods.
func (b *bench) replica(t *testing.T) string {
	for _, pod := range b.cluster.BridgePods(t) {
		address := net.JoinHostPort(pod.Status.PodIP, "8080")
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			_ = conn.Close()
			return "http://" + address
		}
	}
	fmt.Println("Pods are not reached from here: figures of the bridge include a port-forward.")
	return b.cluster.Replicas(t)[0]
}

// From tools/call to the first instruction of the container, beside a bare Job with the same Pod.
func TestStart(t *testing.T) {
	b := start(t)
	var ours, bare []time.Duration
	for i := range 9 {
		began := time.Now()
		task := b.call(t, "stamp")
		stamped := b.stamp(t, task)
		job := b.bareCopy(t, task)
		if i > 0 { // the first is a warm-up
			ours = append(ours, stamped.Sub(began))
		}

		began = time.Now()
		if err := b.cluster.Client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		stamped = b.stamp(t, job.Name)
		if i > 0 {
			bare = append(bare, stamped.Sub(began))
		}
	}
	report("from tools/call to the container's start", ours, "from a bare Job's create", bare)
}

// The handle of a task, beside a raw create of the same object. The tool's Jobs are suspended, so that no Pod of an earlier
// round takes the time of a later one.
func TestHandle(t *testing.T) {
	b := start(t)
	capabilities := &runtime.RawExtension{Raw: []byte(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}
	var ours, raw []time.Duration
	for i := range 60 {
		began := time.Now()
		id := b.call(t, "held")
		took := time.Since(began)
		made := b.settled(t, id)
		same := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: b.namespace}, Spec: made.Spec}
		same.Spec.Owner, same.Spec.ClientCapabilities = nil, capabilities // an owner of somebody else's is refused
		began = time.Now()
		if err := b.cluster.Client.Create(t.Context(), same); err != nil {
			t.Fatal(err)
		}
		if rawTook := time.Since(began); i >= 10 {
			ours, raw = append(ours, took), append(raw, rawTook)
		}
		b.settled(t, same.Name)
	}
	report("tools/call to the handle", ours, "raw create of the same task", raw)
}

// The time from the Job's end, as a watch shows it, until tasks/get says completed.
func TestCompletionSeen(t *testing.T) {
	b := start(t)
	watcher, err := client.NewWithWatch(b.cluster.Config, client.Options{Scheme: b.cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var late []time.Duration
	for range 9 {
		events, err := watcher.Watch(t.Context(), &batchv1.JobList{}, client.InNamespace(b.namespace))
		if err != nil {
			t.Fatal(err)
		}
		id := b.call(t, "stamp")
		for event := range events.ResultChan() {
			if job, ok := event.Object.(*batchv1.Job); ok && job.Name == id && job.Status.CompletionTime != nil {
				break
			}
		}
		ended := time.Now()
		events.Stop()
		harness.Eventually(t, time.Minute, "completed", func(ctx context.Context) error {
			poll := time.NewTicker(4 * time.Millisecond) // faster for long is refused
			defer poll.Stop()
			for range 25 {
				<-poll.C
				task, err := b.agent.GetTask(ctx, id)
				if err != nil {
					return err
				}
				if task.Status == mcpclient.Completed {
					return nil
				}
			}
			return fmt.Errorf("not yet")
		})
		late = append(late, time.Since(ended))
	}
	slices.Sort(late)
	fmt.Printf("\ntasks/get says completed after the Job's end: median %s, min %s, max %s (%d runs)\n", ms(late[len(late)/2]), ms(late[0]), ms(late[len(late)-1]), len(late))
}

func (b *bench) call(t *testing.T, tool string) string {
	called, err := b.agent.CallTool(t.Context(), tool, json.RawMessage(`{}`), mcpclient.CallOptions{})
	if err != nil || called.Task == nil {
		t.Fatalf("%v %+v", err, called)
	}
	return called.Task.ID
}

// settled waits until the controller has made the Job of a task, so that its work does not stand in the way of the next round.
func (b *bench) settled(t *testing.T, id string) *v1alpha1.McpTask {
	task := &v1alpha1.McpTask{}
	harness.Eventually(t, time.Minute, "the task has a Job", func(ctx context.Context) error {
		if err := b.cluster.Client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: id}, task); err != nil {
			return err
		}
		if task.Status.JobRef == nil {
			return fmt.Errorf("it has none")
		}
		return nil
	})
	return task
}

// stamp waits for the end of a Job and reads from its log when its program started.
func (b *bench) stamp(t *testing.T, name string) time.Time {
	var log string
	harness.Eventually(t, time.Minute, "the Job's log", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := b.cluster.Client.List(ctx, &pods, client.InNamespace(b.namespace), client.MatchingLabels{batchv1.JobNameLabel: name}); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("%d Pods", len(pods.Items))
		}
		raw, err := b.cluster.Kubernetes.CoreV1().Pods(b.namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		log = strings.TrimSpace(string(raw))
		return err
	})
	nanoseconds, err := strconv.ParseInt(log, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, nanoseconds)
}

// bareCopy is the Job of a task as somebody would make it by hand.
func (b *bench) bareCopy(t *testing.T, task string) *batchv1.Job {
	var job batchv1.Job
	if err := b.cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: task}, &job); err != nil {
		t.Fatal(err)
	}
	bare := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: b.namespace}, Spec: job.Spec}
	bare.Spec.Selector = nil
	bare.Spec.Template.Labels = nil
	return bare
}

// report prints the two as ratio of their medians, and the spread of the ratios pair by pair.
func report(what string, ours []time.Duration, baseline string, theirs []time.Duration) {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = float64(ours[i]) / float64(theirs[i])
	}
	slices.Sort(ratios)
	slices.Sort(ours)
	slices.Sort(theirs)
	n := len(ours)
	fmt.Printf("\n%s: median %s (%s to %s)\n%s: median %s (%s to %s)\nratio of medians %.2f; pair by pair: median %.2f, quartiles %.2f to %.2f (%d pairs)\n",
		what, ms(ours[n/2]), ms(ours[0]), ms(ours[n-1]), baseline, ms(theirs[n/2]), ms(theirs[0]), ms(theirs[n-1]),
		float64(ours[n/2])/float64(theirs[n/2]), ratios[n/2], ratios[n/4], ratios[3*n/4], n)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
