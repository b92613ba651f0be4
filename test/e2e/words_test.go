//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

func TestPodThatAQuotaRefusesIsExplained(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "crowded")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "team", Namespace: namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}},
	}
	if err := cluster.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the quota is in force", func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return fmt.Errorf("it has no status")
		}
		return nil
	})
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	task := finish(t, agent, call(t, agent, "crowded", `{}`))
	want := "the work could not start within 8s (startDeadline): the API server does not take the Job's Pod: exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"
	if task.Status != mcpclient.Failed || task.Error.Message != want || task.StatusMessage != want {
		t.Errorf("got %s", task.Raw)
	}
	awaitNoJob(t, cluster, namespace, task.ID)
}

func TestWorkThatTheClusterEndsSaysWhy(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "out-of-memory", "time-limit", "bad-init")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	for tool, want := range map[string]struct {
		status          mcpclient.Status
		reason, message string
	}{
		"out-of-memory": {mcpclient.Completed, v1alpha1.ReasonOOMKilled, "the tool was killed: it used more memory than its limit of 64Mi"},
		"time-limit":    {mcpclient.Failed, v1alpha1.ReasonDeadlineExceeded, "the Job reached its time limit (activeDeadlineSeconds) of 3 s and was stopped"},
		"bad-init":      {mcpclient.Failed, v1alpha1.ReasonStartFailed, "the tool never ran: the init container migrate ended with exit code 2: no such table: ledger"},
	} {
		t.Run(tool, func(t *testing.T) {
			task := finish(t, agent, call(t, agent, tool, `{}`))
			kept := stored(t, cluster, namespace, task.ID).Status
			if task.Status != want.status || kept.Reason != want.reason || !strings.HasPrefix(kept.Message, want.message) || task.StatusMessage != kept.Message {
				t.Errorf("got %s: %s\n%s", kept.Reason, kept.Message, task.Raw)
			}
			if task.Status == mcpclient.Completed && !task.Result.IsError {
				t.Errorf("no error of the tool: %s", task.Raw)
			}
		})
	}
}

// A service-mesh proxy as an ordinary container keeps a Job from ever ending; the task ends with its work, and then the Job does.
func TestTaskEndsWithItsWorkAlthoughAContainerBesideItDoesNot(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "mesh")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	called := call(t, agent, "mesh", `{}`)
	awaitStored(t, cluster, namespace, called.Task.ID, v1alpha1.TaskWorking, v1alpha1.ReasonFinishing)
	task := finish(t, agent, called)
	if task.Status != mcpclient.Completed || task.Result.IsError || !strings.Contains(textOf(task.Result), "Hello, you!") {
		t.Errorf("got %s", task.Raw)
	}
	harness.Eventually(t, time.Minute, "the Job has ended", func(ctx context.Context) error {
		var job batchv1.Job
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: task.ID}, &job); err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", job.Status.Conditions)
	})
	if again := stored(t, cluster, namespace, task.ID).Status; again.State != v1alpha1.TaskCompleted {
		t.Errorf("the end of the Job made it %s/%s", again.State, again.Reason)
	}
}
