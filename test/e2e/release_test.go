//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// podsOf are the Pods of a task, or of all tasks of the namespace.
func podsOf(t *testing.T, cluster *harness.Cluster, namespace string, task ...string) []corev1.Pod {
	t.Helper()
	selector := client.ListOption(client.HasLabels{v1alpha1.LabelTask})
	if len(task) > 0 {
		selector = client.MatchingLabels{v1alpha1.LabelTask: task[0]}
	}
	var pods corev1.PodList
	if err := cluster.Client.List(t.Context(), &pods, client.InNamespace(namespace), selector); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// givenBack waits until the task keeps no Pod, and makes sure that it says so and goes on waiting.
func givenBack(t *testing.T, cluster *harness.Cluster, namespace, id string) {
	t.Helper()
	harness.Eventually(t, time.Minute, id+" keeps no Pod", func(context.Context) error {
		if pods := podsOf(t, cluster, namespace, id); len(pods) > 0 {
			return fmt.Errorf("there is %s", pods[0].Name)
		}
		return nil
	})
	task := stored(t, cluster, namespace, id)
	if task.Status.State != v1alpha1.TaskInputRequired || task.Status.Reason != v1alpha1.ReasonAwaitingInput || !strings.Contains(task.Status.Message, "no Pod is kept until an answer comes: Is it all right?") {
		t.Errorf("kubectl shows %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
	}
}

// A question is asked, its Pod goes, and controller and bridges are killed. The answers bring the Pod back each time, and all that the
// program does beside, such as exiting with 0 when it is told to end, counts for nothing. Its Job may be active for 45 seconds, which
// is less than all this takes.
func TestNoPodWaitsForAPerson(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask-released")
	agent := person(t, cluster, cluster.Replicas(t)[0], namespace)
	codes := []int{0, 143}
	began := time.Now()
	called := make([]*mcpclient.CallResult, len(codes))
	for i, code := range codes {
		called[i] = call(t, agent, "ask-released", fmt.Sprintf(`{"code":%d}`, code))
	}
	first := make([]string, len(codes))
	for i := range codes {
		first[i] = onlyKey(asked(t, agent, called[i].Task.ID, 1))
	}
	for i := range codes {
		givenBack(t, cluster, namespace, called[i].Task.ID)
	}
	versions := map[string]string{}
	for i := range codes {
		versions[called[i].Task.ID] = stored(t, cluster, namespace, called[i].Task.ID).ResourceVersion
	}
	for _, component := range []string{"controller", "bridge"} {
		if _, err := harness.Run(t.Context(), "", "kubectl", "-n", harness.SystemNamespace, "delete", "pods", "-l", "app.kubernetes.io/component="+component, "--grace-period=0", "--force", "--wait=false"); err != nil {
			t.Fatal(err)
		}
	}
	cluster.AwaitBridge(t)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if pods := podsOf(t, cluster, namespace); len(pods) > 0 {
			t.Fatalf("nobody has answered, and there is %s", pods[0].Name)
		}
	}
	for id, version := range versions {
		if now := stored(t, cluster, namespace, id); now.ResourceVersion != version {
			t.Errorf("the task was written although nothing happened: %+v", now.Status)
		}
	}
	agent = person(t, cluster, cluster.Replicas(t)[0], namespace)
	second := make([]string, len(codes))
	for i := range codes {
		id := called[i].Task.ID
		if err := agent.UpdateTask(t.Context(), id, map[string]any{first[i]: accept(`{"ok":true}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range codes {
		second[i] = onlyKey(asked(t, agent, called[i].Task.ID, 1))
		if first[i] == second[i] {
			t.Errorf("%s is asked twice", first[i])
		}
	}
	for i := range codes {
		givenBack(t, cluster, namespace, called[i].Task.ID)
		if err := agent.UpdateTask(t.Context(), called[i].Task.ID, map[string]any{second[i]: accept(`{"ok":false}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range codes {
		id := called[i].Task.ID
		if task := finish(t, agent, called[i]); task.Status != mcpclient.Completed || task.Result.IsError || !strings.Contains(string(task.Result.Raw), `{"answers":[true,false]}`) {
			t.Errorf("exit code %d on SIGTERM: %s", codes[i], task.Raw)
		}
		task := stored(t, cluster, namespace, id)
		if len(task.Status.InputRequests) != 2 || len(task.Status.PodUIDs) != 3 {
			t.Errorf("%d questions, Pods %v", len(task.Status.InputRequests), task.Status.PodUIDs)
		}
		var job batchv1.Job
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: id}, &job); err != nil || job.Status.Failed != 0 || job.Status.Succeeded != 1 {
			t.Errorf("the Job counts %d failed and %d succeeded, %v", job.Status.Failed, job.Status.Succeeded, err)
		}
	}
	t.Logf("it took %s", time.Since(began).Round(time.Second))
}

func TestATaskWithoutAPodIsCancelled(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask-released")
	agent := person(t, cluster, cluster.Replicas(t)[0], namespace)
	called := call(t, agent, "ask-released", `{}`)
	asked(t, agent, called.Task.ID, 1)
	givenBack(t, cluster, namespace, called.Task.ID)
	if err := agent.CancelTask(t.Context(), called.Task.ID); err != nil {
		t.Fatal(err)
	}
	if task := finish(t, agent, called); task.Status != mcpclient.Cancelled {
		t.Errorf("got %s", task.Raw)
	}
	harness.Eventually(t, time.Minute, "its Job is removed", func(ctx context.Context) error {
		var jobs batchv1.JobList
		if err := cluster.Client.List(ctx, &jobs, client.InNamespace(namespace)); err != nil {
			return err
		}
		if i := slices.IndexFunc(jobs.Items, func(job batchv1.Job) bool { return job.DeletionTimestamp == nil }); i >= 0 {
			return fmt.Errorf("there is %s", jobs.Items[i].Name)
		}
		return nil
	})
	if pods := podsOf(t, cluster, namespace); len(pods) > 0 {
		t.Errorf("there is %s", pods[0].Name)
	}
}
