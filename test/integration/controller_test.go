//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// testRuntime is a runtime that no Pod of these tests reaches.
var testRuntime = jobs.Runtime{URL: "http://bridge.test:8082", Image: "example.test/mcptask"}

// runController runs the operator for one namespace until the test ends, or stops it.
func runController(t *testing.T, namespace string) (stop func()) {
	t.Helper()
	return runControllerWith(t, namespace, testRuntime)
}

func runControllerWith(t *testing.T, namespace string, runtime jobs.Runtime) (stop func()) {
	t.Helper()
	return runControllerOn(t, cfg, namespace, func(o *controllerOptions) { o.runtime = runtime })
}

// controllerOptions are what a test may change of an operator.
type controllerOptions struct {
	cache   cache.Options
	runtime jobs.Runtime
}

func runControllerOn(t *testing.T, config *rest.Config, namespace string, change func(*controllerOptions)) (stop func()) {
	t.Helper()
	o := controllerOptions{cache: controllers.CacheOptions(), runtime: testRuntime}
	o.cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	if change != nil {
		change(&o)
	}
	unique := true
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: o.cache, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: &unique},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := controllers.Setup(ctx, mgr, o.runtime, time.Now); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// eventually waits until the condition holds; it fails the test with what the condition last said.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	within(t, 30*time.Second, what, condition)
}

// within is eventually for what takes its time.
func within(t *testing.T, limit time.Duration, what string, condition func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		last = condition()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v (%v)", what, last, err)
	}
}

func read(t *testing.T, o client.Object) error {
	return k8s.Get(t.Context(), client.ObjectKeyFromObject(o), o)
}

// awaitReady waits until the tool was checked and returns its Ready condition.
func awaitReady(t *testing.T, tool *v1alpha1.McpTool) *metav1.Condition {
	t.Helper()
	var ready *metav1.Condition
	eventually(t, "the tool is checked", func() error {
		if err := read(t, tool); err != nil {
			return err
		}
		if ready = meta.FindStatusCondition(tool.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.ObservedGeneration != tool.Generation {
			return fmt.Errorf("conditions %v", tool.Status.Conditions)
		}
		return nil
	})
	return ready
}

// awaitState waits for the task's state and reason.
func awaitState(t *testing.T, task *v1alpha1.McpTask, state v1alpha1.TaskState, reason string) {
	t.Helper()
	eventually(t, "the task is "+string(state)+"/"+reason, func() error {
		if err := read(t, task); err != nil {
			return err
		}
		if task.Status.State != state || task.Status.Reason != reason {
			return fmt.Errorf("it is %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
		}
		return nil
	})
}

// awaitPod waits for the only Pod of a task.
func awaitPod(t *testing.T, task *v1alpha1.McpTask) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	eventually(t, "the task has a Pod", func() error {
		if err := k8s.List(t.Context(), &pods, client.InNamespace(task.Namespace), client.MatchingLabels{v1alpha1.LabelTask: task.Name}); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("%d Pods", len(pods.Items))
		}
		return nil
	})
	return &pods.Items[0]
}

// play sets the Pod's status as its node would.
func play(t *testing.T, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	t.Helper()
	eventually(t, "the Pod's status is written", func() error {
		if err := read(t, pod); err != nil {
			return err
		}
		change(&pod.Status)
		return k8s.Status().Update(t.Context(), pod)
	})
}

func ended(code int32, message string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Phase = corev1.PodSucceeded
		if code != 0 {
			s.Phase = corev1.PodFailed
		}
		now := metav1.Now()
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, StartedAt: now, FinishedAt: now, Message: message}}}}
	}
}

func runningSince(at metav1.Time) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}}
	}
}

func callOf(tool *v1alpha1.McpTool, arguments string) *v1alpha1.McpTask {
	return &v1alpha1.McpTask{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: tool.Namespace},
		Spec:       v1alpha1.McpTaskSpec{ToolName: tool.Name, Arguments: &runtime.RawExtension{Raw: []byte(arguments)}},
	}
}

// calledTool makes a ready tool and a call of it, changed as the test wants.
func calledTool(t *testing.T, change func(*v1alpha1.McpToolSpec)) *v1alpha1.McpTask {
	t.Helper()
	ns := newNamespace(t)
	runController(t, ns)
	tool := newTool(ns, "tool")
	if change != nil {
		change(&tool.Spec)
	}
	create(t, tool)
	if ready := awaitReady(t, tool); ready.Status != metav1.ConditionTrue {
		t.Fatalf("the tool is not ready: %s", ready.Message)
	}
	task := callOf(tool, `{"n":3}`)
	create(t, task)
	return task
}

func TestToolReadiness(t *testing.T) {
	ns := newNamespace(t)
	runController(t, ns)
	for name, tc := range map[string]struct {
		change        func(*v1alpha1.McpToolSpec)
		reason, words string
	}{
		"good": {func(*v1alpha1.McpToolSpec) {}, v1alpha1.ReasonToolReady, ""},
		"broken-schema": {func(s *v1alpha1.McpToolSpec) {
			s.InputSchema.Raw = []byte(`{"type":"object","properties":{"n":{"type":"int"}}}`)
		}, v1alpha1.ReasonInvalidSchema, "spec.inputSchema is not a JSON Schema: /properties/n/type"},
		"remote-ref": {func(s *v1alpha1.McpToolSpec) {
			s.InputSchema.Raw = []byte(`{"type":"object","properties":{"n":{"$ref":"https://example.test/x"}}}`)
		}, v1alpha1.ReasonInvalidSchema, "remote document"},
		"bad-output": {func(s *v1alpha1.McpToolSpec) { s.OutputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"array"}`)} }, v1alpha1.ReasonInvalidSchema, "spec.outputSchema must be a schema"},
		"collision": {func(s *v1alpha1.McpToolSpec) {
			s.InputSchema.Raw = []byte(`{"type":"object","properties":{"n":{},"N":{}}}`)
		}, v1alpha1.ReasonInvalidArguments, `"N" and "n" would both be ARG_N`},
		"undeclared": {func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.Template.Spec.Containers[0].Args = []string{"$(ARG_M)", "$$(ARG_Z)"}
		}, v1alpha1.ReasonInvalidArguments, "containers[0].args[0]: Invalid value: \"$(ARG_M)\": inputSchema has no property"},
		"shell": {func(s *v1alpha1.McpToolSpec) {
			c := &s.JobTemplate.Spec.Template.Spec.Containers[0]
			c.Command, c.Args = []string{"/bin/sh", "-ec"}, []string{"echo $(ARG_N)"}
		}, v1alpha1.ReasonInvalidArguments, "stands in the program of a shell"},
		"own-variable": {func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ARG_N", Value: "1"}}
		}, v1alpha1.ReasonInvalidArguments, "env[0].name"},
		"no-container": {func(s *v1alpha1.McpToolSpec) { s.Container = "nobody" }, v1alpha1.ReasonInvalidTemplate, "spec.container: Invalid value: \"nobody\""},
		"no-image":     {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.Template.Spec.Containers[0].Image = "" }, v1alpha1.ReasonJobRefused, "spec.jobTemplate.spec.template.spec.containers[0].image: Required value"},
		"no-account":   {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.Template.Spec.ServiceAccountName = "nobody" }, v1alpha1.ReasonJobRefused, `serviceaccount "nobody" not found`},
		"bad-header": {func(s *v1alpha1.McpToolSpec) {
			s.InputSchema.Raw = []byte(`{"type":"object","properties":{"n":{"type":"object","x-mcp-header":"N"}}}`)
		}, v1alpha1.ReasonInvalidSchema, "spec.inputSchema/properties/n has x-mcp-header"},
		"restarts": {func(s *v1alpha1.McpToolSpec) {
			p := corev1.ContainerRestartPolicyOnFailure
			s.JobTemplate.Spec.Template.Spec.Containers[0].RestartPolicy = &p
		}, v1alpha1.ReasonInvalidTemplate, "containers[0].restartPolicy"},
		"volume-name": {func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "mcptask-arguments"}}
		}, v1alpha1.ReasonInvalidTemplate, "volumes[0].name"},
		"taken-mountpath": {func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: "/etc/mcptask/"}}
		}, v1alpha1.ReasonInvalidTemplate, "volumeMounts[0].mountPath"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := newTool(ns, name)
			tc.change(&tool.Spec)
			create(t, tool)
			ready := awaitReady(t, tool)
			if ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.words) || (ready.Status == metav1.ConditionTrue) != (tc.words == "") {
				t.Errorf("got %s/%s: %s", ready.Status, ready.Reason, ready.Message)
			}
		})
	}
}

func TestOfTwoToolsWithOneNameTheOlderKeepsIt(t *testing.T) {
	ns := newNamespace(t)
	runController(t, ns)
	first, second := newTool(ns, "a-first"), newTool(ns, "b-second")
	first.Spec.Name, second.Spec.Name = "same", "same"
	create(t, first)
	if awaitReady(t, first).Status != metav1.ConditionTrue {
		t.Fatal("the first is not ready")
	}
	create(t, second)
	if ready := awaitReady(t, second); ready.Reason != v1alpha1.ReasonNameConflict || !strings.Contains(ready.Message, "a-first is older") {
		t.Errorf("got %s: %s", ready.Reason, ready.Message)
	}
	if err := k8s.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second takes over", func() error {
		if ready := awaitReady(t, second); ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("%s", ready.Message)
		}
		return nil
	})
}

func TestJobCarriesTheTemplateAndTheArguments(t *testing.T) {
	task := calledTool(t, nil)
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonScheduling)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
	if err := read(t, job); err != nil {
		t.Fatal(err)
	}
	if task.Status.JobRef == nil || task.Status.JobRef.UID != job.UID || !metav1.IsControlledBy(job, task) {
		t.Errorf("jobRef %+v, owners %+v", task.Status.JobRef, job.OwnerReferences)
	}
	spec := job.Spec
	if job.Labels["team"] != "a" || job.Annotations["note"] != "kept" || spec.Template.Labels["app"] != "x" || spec.Template.Annotations["pod-note"] != "kept" {
		t.Errorf("the template's labels and annotations: %v %v", job.ObjectMeta, spec.Template.ObjectMeta)
	}
	if *spec.BackoffLimit != 0 || spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || *spec.PodReplacementPolicy != batchv1.Failed ||
		spec.Template.Spec.Containers[0].TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		t.Errorf("defaults: %+v", spec)
	}
	for _, c := range []corev1.Container{spec.Template.Spec.InitContainers[0], spec.Template.Spec.Containers[0]} {
		if !slices.Contains(c.Env, corev1.EnvVar{Name: "ARG_N", Value: "3"}) || !slices.Contains(c.Env, corev1.EnvVar{Name: "MCPTASK_TASK_ID", Value: task.Name}) {
			t.Errorf("%s: %v", c.Name, c.Env)
		}
	}
	if got := spec.Template.Annotations[v1alpha1.AnnotationArguments]; got != `{"n":3}` {
		t.Errorf("arguments annotation %q", got)
	}
}

func TestTaskFollowsItsJob(t *testing.T) {
	t.Run("succeeded", func(t *testing.T) {
		task := calledTool(t, nil)
		pod := awaitPod(t, task)
		play(t, pod, ended(0, `{"answer":42,"doubt":null}`))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonSucceeded)
		var result struct{ StructuredContent json.RawMessage }
		if err := json.Unmarshal(task.Status.Result.Inline.Raw, &result); err != nil || string(result.StructuredContent) != `{"answer":42,"doubt":null}` {
			t.Errorf("%v %s", err, task.Status.Result.Inline.Raw)
		}
		if !meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionFinished) || task.Status.FinishedAt == nil || task.Status.StartedAt == nil || task.Status.PodUIDs[0] != pod.UID {
			t.Errorf("status %+v", task.Status)
		}
	})
	t.Run("exit code", func(t *testing.T) {
		task := calledTool(t, nil)
		play(t, awaitPod(t, task), ended(3, "no such host"))
		awaitState(t, task, v1alpha1.TaskCompleted, v1alpha1.ReasonToolError)
		if raw := string(task.Status.Result.Inline.Raw); !strings.Contains(raw, `"isError":true`) || !strings.Contains(raw, "exit code 3") || !strings.Contains(raw, "no such host") {
			t.Error(raw)
		}
	})
	t.Run("running, then deleted by hand", func(t *testing.T) {
		task := calledTool(t, nil)
		play(t, awaitPod(t, task), runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}}
		if err := k8s.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonJobDeleted)
		if task.Status.Error == nil || task.Status.Error.Code != -32603 {
			t.Errorf("error %+v", task.Status.Error)
		}
	})
	t.Run("Pod deleted by hand", func(t *testing.T) {
		task := calledTool(t, nil)
		pod := awaitPod(t, task)
		bind(t, pod)
		play(t, pod, runningSince(metav1.Now()))
		awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
		if err := k8s.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		// What a node does then: it ends the containers, says so, and removes the Pod.
		play(t, pod, ended(143, "terminated"))
		if err := k8s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonEvicted)
		if !strings.Contains(task.Status.Message, "was deleted") || !strings.Contains(task.Status.Message, "exit code 143") || !strings.Contains(string(task.Status.Error.Data.Raw), `"exitCode":143`) {
			t.Errorf("message %q, error %+v", task.Status.Message, task.Status.Error)
		}
	})
	t.Run("orphaned by hand", func(t *testing.T) {
		task := calledTool(t, nil)
		pod := awaitRunning(t, task)
		if err := k8s.Delete(t.Context(), jobOf(task), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			t.Fatal(err)
		}
		awaitDeadline(t, pod, 1)
		play(t, pod, ended(143, "partial"))
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonJobDeleted)
	})
	t.Run("cannot be pulled", func(t *testing.T) {
		task := calledTool(t, func(s *v1alpha1.McpToolSpec) { s.StartDeadline = &metav1.Duration{Duration: 2 * time.Second} })
		pod := awaitPod(t, task)
		bind(t, pod)
		play(t, pod, func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", Image: "example.test/image", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"}}}}
		})
		awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonImagePullFailed)
		for _, words := range []string{"example.test/image", "no such host", "within 2s"} {
			if !strings.Contains(task.Status.Message, words) {
				t.Errorf("%q lacks %q", task.Status.Message, words)
			}
		}
		eventually(t, "the Job is removed", func() error {
			err := read(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace}})
			if client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%v", err)
			}
			return nil
		})
	})
}

func TestTaskThatCannotHaveAJob(t *testing.T) {
	ns := newNamespace(t)
	runController(t, ns)
	bad := newTool(ns, "bad")
	bad.Spec.Container = "nobody"
	good := newTool(ns, "good")
	create(t, bad)
	create(t, good)
	awaitReady(t, bad)
	awaitReady(t, good)
	cancelled := callOf(good, `{}`)
	cancelled.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true}
	for _, tc := range []struct {
		task   *v1alpha1.McpTask
		state  v1alpha1.TaskState
		reason string
	}{
		{callOf(newTool(ns, "none"), `{}`), v1alpha1.TaskFailed, v1alpha1.ReasonToolNotFound},
		{callOf(bad, `{}`), v1alpha1.TaskFailed, v1alpha1.ReasonToolNotReady},
		{callOf(good, `{"n":"three"}`), v1alpha1.TaskFailed, v1alpha1.ReasonInvalidArguments},
		{callOf(good, `{"n":"`+strings.Repeat("x", 101<<10)+`"}`), v1alpha1.TaskFailed, v1alpha1.ReasonInvalidArguments},
		{cancelled, v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			create(t, tc.task)
			awaitState(t, tc.task, tc.state, tc.reason)
		})
	}
}
