//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

func TestWorkThatCannotStartFailsWithTheCauseInWords(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "no-image", "no-node", "no-config", "no-volume")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	for tool, want := range map[string]struct {
		reason string
		words  []string
	}{
		"no-image":  {v1alpha1.ReasonImagePullFailed, []string{"registry.invalid/nothing:1", "within 5s"}},
		"no-node":   {v1alpha1.ReasonUnschedulable, []string{"fits no node", "selector"}},
		"no-config": {v1alpha1.ReasonStartFailed, []string{`configmap "nothing" not found`}},
		"no-volume": {v1alpha1.ReasonStartFailed, []string{`MountVolume.SetUp failed for volume "settings"`, `configmap "nothing" not found`}},
	} {
		t.Run(tool, func(t *testing.T) {
			task := finish(t, agent, call(t, agent, tool, `{}`))
			if task.Status != mcpclient.Failed || task.Error.Code != mcpclient.CodeInternalError || task.StatusMessage == "" {
				t.Errorf("got %s", task.Raw)
			}
			for _, words := range want.words {
				if !strings.Contains(task.Error.Message, words) {
					t.Errorf("%q lacks %q", task.Error.Message, words)
				}
			}
			if got := stored(t, cluster, namespace, task.ID).Status.Reason; got != want.reason {
				t.Errorf("reason %s, want %s", got, want.reason)
			}
			awaitNoJob(t, cluster, namespace, task.ID)
		})
	}
}

func awaitNoJob(t *testing.T, cluster *harness.Cluster, namespace, name string) {
	t.Helper()
	harness.Eventually(t, time.Minute, "the Job is gone", func(ctx context.Context) error {
		err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &batchv1.Job{})
		if err == nil {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

func TestJobDeletedByHandIsNotRunAgain(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	called := call(t, agent, "compute", `{"seconds":600}`)
	awaitStored(t, cluster, namespace, called.Task.ID, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	if _, err := harness.Run(t.Context(), "", "kubectl", "-n", namespace, "delete", "job", called.Task.ID); err != nil {
		t.Fatal(err)
	}
	task := finish(t, agent, called)
	if task.Status != mcpclient.Failed || !strings.Contains(task.Error.Message, "was deleted") {
		t.Errorf("got %s", task.Raw)
	}
	var jobs batchv1.JobList
	if err := cluster.Client.List(t.Context(), &jobs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) != 0 {
		t.Errorf("%d Jobs run", len(jobs.Items))
	}
}

func TestControllerRestartMakesNoSecondJob(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	var called []*mcpclient.CallResult
	for range 4 {
		called = append(called, call(t, agent, "compute", `{"seconds":1}`))
	}
	if _, err := harness.Run(t.Context(), "", "kubectl", "-n", harness.SystemNamespace, "delete", "pod",
		"-l", "app.kubernetes.io/component=controller", "--force", "--grace-period=0"); err != nil {
		t.Fatal(err)
	}
	for _, c := range called {
		if task := finish(t, agent, c); task.Status != mcpclient.Completed || !strings.Contains(textOf(task.Result), "computed") {
			t.Errorf("got %s", task.Raw)
		}
	}
	var jobs batchv1.JobList
	if err := cluster.Client.List(t.Context(), &jobs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) != len(called) {
		t.Errorf("%d Jobs for %d tasks", len(jobs.Items), len(called))
	}
	for _, job := range jobs.Items {
		if owner := metav1.GetControllerOf(&job); owner == nil || owner.Name != job.Name || job.Status.Succeeded != 1 {
			t.Errorf("Job %s: owner %v, %d succeeded", job.Name, owner, job.Status.Succeeded)
		}
	}
}

// What a caller sends arrives in the program as those bytes, and never becomes the template's secrets or a command.
func TestArgumentsArriveAsTheyWereSent(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "echo")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	for name, text := range map[string]string{
		"reference": "$(DB_PASSWORD)",
		"escaped":   "$$(X) $$$ $",
		"own":       "$(ARG_DEPTH) $(MCPTASK_TASK_ID)",
		"shell":     "; rm -rf / && `id` $(id) | cat",
		"newline":   "a\nb\r\n\tc",
		"unicode":   "é 世界 \U0001F980 \u202e",
		"quotes":    `"'\`,
		"empty":     "",
		"long":      strings.Repeat("x$", 4000),
	} {
		t.Run(name, func(t *testing.T) {
			arguments, err := json.Marshal(map[string]any{"text": text, "list": []any{1, "$(DB_PASSWORD)", nil}})
			if err != nil {
				t.Fatal(err)
			}
			task := finish(t, agent, call(t, agent, "echo", string(arguments)))
			var got struct {
				Args []string          `json:"args"`
				Env  map[string]string `json:"env"`
				File string            `json:"file"`
			}
			if task.Status != mcpclient.Completed || json.Unmarshal(task.Result.StructuredContent, &got) != nil {
				t.Fatalf("got %s", task.Raw)
			}
			if want := []string{"--text=" + text, "--depth=3", ""}; !slices.Equal(got.Args, want) {
				t.Errorf("args %q, want %q", got.Args, want)
			}
			if got.Env["ARG_TEXT"] != text || got.Env["ARG_LIST"] != `[1,"$(DB_PASSWORD)",null]` || got.Env["ARG_NONE"] != "" || got.Env["MCPTASK_TASK_ID"] != task.ID {
				t.Errorf("environment %q", got.Env)
			}
			for from, content := range map[string]string{"file": got.File, "variable": got.Env["MCPTASK_ARGUMENTS"]} {
				var object struct{ Text string }
				if err := json.Unmarshal([]byte(content), &object); err != nil || object.Text != text {
					t.Errorf("%s: %v %q", from, err, content)
				}
			}
		})
	}
}

func TestArgumentsThatDoNotFitAreRefusedByName(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "compute", "echo")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	for arguments, words := range map[string]string{
		`{"seconds":"soon"}`: "/seconds",
		`{"seconds":-1}`:     "/seconds",
		`{"hours":1}`:        "hours",
		`[1]`:                "",
	} {
		_, err := agent.CallTool(t.Context(), "compute", json.RawMessage(arguments), mcpclient.CallOptions{})
		refusedWith(t, err, mcpclient.CodeInvalidParams, words)
	}
	_, err := agent.CallTool(t.Context(), "echo", json.RawMessage(`{"text":"`+strings.Repeat("x", 200<<10)+`"}`), mcpclient.CallOptions{})
	refusedWith(t, err, mcpclient.CodeInvalidParams, "bytes")
	_, err = agent.CallTool(t.Context(), "echo", json.RawMessage(`{"text":"`+strings.Repeat("x", 110<<10)+`"}`), mcpclient.CallOptions{})
	refusedWith(t, err, mcpclient.CodeInvalidParams, "/text")
	var tasks v1alpha1.McpTaskList
	if err := cluster.Client.List(t.Context(), &tasks, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(tasks.Items) != 0 {
		t.Errorf("refused calls left %d tasks", len(tasks.Items))
	}
}
