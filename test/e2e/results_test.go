//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// put is a call of the tool output.
type put struct {
	way, kind string
	bytes     int
}

func (p put) call(t *testing.T, agent *mcpclient.Client) *mcpclient.CallResult {
	t.Helper()
	return call(t, agent, "output", fmt.Sprintf(`{"way":%q,"kind":%q,"bytes":%d}`, p.way, p.kind, p.bytes))
}

// whole says whether all of what the tool put out is kept: it may have 8 MiB.
func (p put) whole() bool { return p.bytes < 8_000_000 }

func textIn(t *testing.T, result *mcpclient.ToolResult) string {
	t.Helper()
	if result.StructuredContent == nil {
		return textOf(result)
	}
	var object struct{ Text string }
	if err := json.Unmarshal(result.StructuredContent, &object); err != nil {
		t.Fatal(err)
	}
	return object.Text
}

func TestResultsOfEverySizeReachTheAgent(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "output")
	replicas := cluster.Replicas(t)
	agent, other := cluster.Agent(t, replicas[0], namespace, "agent", true), cluster.Agent(t, replicas[1], namespace, "agent", true)
	for _, size := range []int{5_000, 500_000, 5_000_000, 50_000_000} {
		called := map[put]*mcpclient.CallResult{}
		for _, way := range []string{"log", "file", "task"} {
			p := put{way, "lines", size}
			called[p] = p.call(t, agent)
		}
		for p, handle := range called {
			began := time.Now()
			task := finish(t, agent, handle)
			object := stored(t, cluster, namespace, task.ID)
			want := strings.Repeat(strings.Repeat("0123456789", 10)[:99]+"\n", p.bytes/100+1)[:p.bytes]
			got := textIn(t, task.Result)
			// A node that has begun a new file for a long log has only the end, and nobody is told that there was more.
			rotated := !p.whole() && p.way == "log" && !object.Status.Result.Truncated
			if task.Status != mcpclient.Completed || task.Result.IsError || object.Status.Result.Truncated == p.whole() && !rotated {
				t.Errorf("%v: %s, %.500s", p, task.Status, task.Raw)
				continue
			}
			switch {
			case rotated && !strings.HasSuffix(strings.TrimSpace(want), strings.TrimSpace(got)):
				t.Errorf("%v: the %d bytes that reach the agent are not the end", p, len(got))
			case rotated:
			case p.whole() && strings.TrimSpace(got) != strings.TrimSpace(want):
				t.Errorf("%v: %d bytes reach the agent", p, len(got))
			case !p.whole() && !strings.Contains(got, "To see all of it"):
				t.Errorf("%v: it says %.300s", p, got)
			case !p.whole() && p.way != "log" && object.Status.Result.Size < int64(p.bytes):
				t.Errorf("%v: the full size is said to be %d", p, object.Status.Result.Size)
			}
			if large := len(task.Result.Raw) > 40_000; large != (object.Status.Result.SecretRef != nil) || large == (object.Status.Result.Inline != nil) {
				t.Errorf("%v: %d bytes stand in %+v", p, len(task.Result.Raw), object.Status.Result.SecretRef)
			}
			again, err := other.GetTask(t.Context(), task.ID)
			if err != nil || string(again.Result.Raw) != string(task.Result.Raw) {
				t.Errorf("%v: the other replica shows %v", p, err)
			}
			t.Logf("%v: %d bytes after %s, size %d", p, len(task.Result.Raw), time.Since(began).Round(time.Second), object.Status.Result.Size)
		}
	}
}

func TestOddOutputIsNeverAFailureOfTheTask(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "output")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	called := map[put]*mcpclient.CallResult{}
	// A node begins a new file for a log of more than 10 MiB, and has the end alone.
	for _, p := range []put{
		{"log", "binary", 300_000}, {"log", "badly", 300_000}, {"log", "line", 10_000_000}, {"log", "short", 1_100_000},
		{"file", "binary", 300_000}, {"task", "badly", 300_000},
	} {
		called[p] = p.call(t, agent)
	}
	for p, handle := range called {
		task := finish(t, agent, handle)
		if task.Status != mcpclient.Completed || task.Result.IsError {
			t.Errorf("%v: %s, %.500s", p, task.Status, task.Raw)
			continue
		}
		got := textIn(t, task.Result)
		// Of a line that is longer than the tool allows the end is kept; everything else fits, and is whole.
		if cut := stored(t, cluster, namespace, task.ID).Status.Result.Truncated; cut != (p.kind == "line") {
			t.Errorf("%v: truncated is %v", p, cut)
		}
		// Each piece of it ends with two bytes that are not UTF-8, which become U+FFFD, one or two; its control characters arrive.
		if p.kind == "binary" && strings.ReplaceAll(got, "\uFFFD\uFFFD", "\uFFFD") != strings.Repeat("\x00\x01\x02\uFFFD", p.bytes/5) {
			t.Errorf("%v: of %d bytes the agent reads %d, %.100q", p, p.bytes, len(got), got)
		}
		if p.kind == "badly" && !strings.Contains(got, "a\uFFFD\uFFFDb") && !strings.Contains(got, "a\uFFFDb") {
			t.Errorf("%v: the agent reads %.100q", p, got)
		}
		if p.kind == "short" && strings.Count(got, "\n") < 99_999 {
			t.Errorf("%v: %d lines reach the agent", p, strings.Count(got, "\n"))
		}
		if p.kind == "line" && (!strings.Contains(got, "To see all of it") || len(got) < 7_000_000) {
			t.Errorf("%v: %d bytes, %.300s", p, len(got), got)
		}
	}
}

func TestResultSurvivesThePodAndGoesWithTheTask(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "output")
	replicas := cluster.Replicas(t)
	agent, other := cluster.Agent(t, replicas[0], namespace, "agent", true), cluster.Agent(t, replicas[1], namespace, "agent", true)
	secretsOf := func(ctx context.Context, id string) (list corev1.SecretList, err error) {
		err = cluster.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelTask: id})
		return list, err
	}
	for _, way := range []string{"log", "file"} {
		task := finish(t, agent, put{way, "lines", 600_000}.call(t, agent))
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: task.ID}}
		if err := cluster.Client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "the Pod is gone", func(ctx context.Context) error {
			var pods corev1.PodList
			if err := cluster.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
				return err
			}
			if len(pods.Items) > 0 {
				return fmt.Errorf("%d Pods", len(pods.Items))
			}
			return nil
		})
		again, err := other.GetTask(t.Context(), task.ID)
		if err != nil || string(again.Result.Raw) != string(task.Result.Raw) || len(textIn(t, again.Result)) < 599_000 {
			t.Errorf("%s: %v", way, err)
		}
		if list, err := secretsOf(t.Context(), task.ID); err != nil || len(list.Items) != 2 {
			t.Errorf("%s: %d Secrets, %v", way, len(list.Items), err)
		}
		if err := cluster.Client.Delete(t.Context(), stored(t, cluster, namespace, task.ID)); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "the Secrets are gone", func(ctx context.Context) error {
			list, err := secretsOf(ctx, task.ID)
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d Secrets", len(list.Items))
			}
			return err
		})
	}
}
