//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// newTask is a call of a tool that nobody serves, with every field that may not change filled in.
func newTask(namespace string) *v1alpha1.McpTask {
	return &v1alpha1.McpTask{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: namespace},
		Spec: v1alpha1.McpTaskSpec{
			ToolName:           "nobody",
			Arguments:          &runtime.RawExtension{Raw: []byte(`{"n":1,"none":null,"list":[1,"2"]}`)},
			Owner:              &v1alpha1.Identity{Issuer: "https://issuer.example", Subject: "ann"},
			ClientCapabilities: &runtime.RawExtension{Raw: []byte(`{"elicitation":{}}`)},
			ProgressToken:      `"p"`,
			Reservation:        "budget-1",
		},
	}
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := k8s.Create(t.Context(), o); err != nil {
		t.Fatalf("create %T: %v", o, err)
	}
}

// refusedWith asserts that the API server refused a change for what it is, and said why.
func refusedWith(t *testing.T, err error, words string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want a refusal with %q", err, words)
	}
}

func jsonPatch(operations string) client.Patch {
	return client.RawPatch(types.JSONPatchType, []byte(operations))
}

func mergePatch(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}

func TestTaskNameHasTheShapeOfAHandle(t *testing.T) {
	ns := newNamespace(t)
	for _, name := range []string{"my-task", "a234567", "abcdefghijklmnopqrstuvwxy1", "2bcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyzabc"} {
		task := newTask(ns)
		task.Name = name
		refusedWith(t, k8s.Create(t.Context(), task), "metadata.name must be a letter")
	}
}

func TestTaskSpecIsImmutable(t *testing.T) {
	task := newTask(newNamespace(t))
	create(t, task)
	for patch, words := range map[string]string{
		`{"spec":{"toolName":"other"}}`:                        "is immutable",
		`{"spec":{"arguments":{"n":2}}}`:                       "arguments is immutable",
		`{"spec":{"arguments":{"more":true}}}`:                 "arguments is immutable",
		`{"spec":{"arguments":null}}`:                          "arguments is immutable",
		`{"spec":{"owner":{"subject":"bob"}}}`:                 "owner is immutable",
		`{"spec":{"owner":null}}`:                              "owner is immutable",
		`{"spec":{"clientCapabilities":{"elicitation":null}}}`: "clientCapabilities is immutable",
		`{"spec":{"clientCapabilities":null}}`:                 "clientCapabilities is immutable",
		`{"spec":{"progressToken":"q"}}`:                       "progressToken is immutable",
		`{"spec":{"progressToken":null}}`:                      "progressToken is immutable",
		`{"spec":{"reservation":"budget-2"}}`:                  "reservation is immutable",
		`{"spec":{"reservation":null}}`:                        "reservation is immutable",
		`{"spec":{"ttl":"-1s"}}`:                               "must be positive",
	} {
		refusedWith(t, k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(patch)), words)
	}
	for _, patch := range []string{`{"spec":{"ttl":"1h"}}`, `{"spec":{"ttl":"2h"}}`, `{"spec":{"ttl":null}}`} {
		if err := k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(patch)); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

func TestTaskFieldsCannotBeAddedLater(t *testing.T) {
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NewTaskID(), Namespace: newNamespace(t)}, Spec: v1alpha1.McpTaskSpec{ToolName: "nobody"}}
	create(t, task)
	for _, field := range []string{`"arguments":{}`, `"owner":{"issuer":"i","subject":"s"}`, `"clientCapabilities":{}`, `"progressToken":"1"`, `"reservation":"r"`} {
		refusedWith(t, k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"spec":{`+field+`}}`)), "is immutable")
	}
}

func TestCancelIsOneWay(t *testing.T) {
	task := newTask(newNamespace(t))
	create(t, task)
	refusedWith(t, k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(`{"spec":{"cancel":{"requested":false}}}`)), "must be true")
	if err := k8s.Patch(t.Context(), task, mergePatch(`{"spec":{"cancel":{"requested":true,"by":"ann"}}}`)); err != nil {
		t.Fatal(err)
	}
	for _, patch := range []string{`{"spec":{"cancel":null}}`, `{"spec":{"cancel":{"by":"bob"}}}`, `{"spec":{"cancel":{"reason":"later"}}}`} {
		refusedWith(t, k8s.Patch(t.Context(), task.DeepCopy(), mergePatch(patch)), "cancel is one way")
	}
}

func TestAnswersAreAppendOnly(t *testing.T) {
	task := newTask(newNamespace(t))
	create(t, task)
	add := func(key, response string) error {
		return k8s.Patch(t.Context(), task, jsonPatch(fmt.Sprintf(
			`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":%q,"response":%s}}]`, key, response)))
	}
	if err := k8s.Patch(t.Context(), task, jsonPatch(`[{"op":"add","path":"/spec/inputResponses","value":[{"key":"a","response":{"action":"accept","content":{"ok":true}}}]}]`)); err != nil {
		t.Fatal(err)
	}
	if err := add("b", `{"action":"decline"}`); err != nil {
		t.Fatal(err)
	}
	if err := add("a", `{"action":"cancel"}`); !apierrors.IsInvalid(err) {
		t.Errorf("a second answer to one question: got %v, want it refused", err)
	}
	for patch, words := range map[string]string{
		`[{"op":"remove","path":"/spec/inputResponses/0"}]`:                                               "append-only",
		`[{"op":"remove","path":"/spec/inputResponses"}]`:                                                 "append-only",
		`[{"op":"replace","path":"/spec/inputResponses/0/response/content/ok","value":false}]`:            "an answer cannot be changed",
		`[{"op":"add","path":"/spec/inputResponses/0/answeredBy","value":{"principal":"x","via":"mcp"}}]`: "an answer cannot be changed",
	} {
		refusedWith(t, k8s.Patch(t.Context(), task.DeepCopy(), jsonPatch(patch)), words)
	}
}

func TestTerminalStateIsFinal(t *testing.T) {
	ns := newNamespace(t)
	for _, state := range []v1alpha1.TaskState{v1alpha1.TaskCompleted, v1alpha1.TaskFailed, v1alpha1.TaskCancelled} {
		task := newTask(ns)
		create(t, task)
		task.Status = v1alpha1.McpTaskStatus{
			State: state, Result: &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(`{"content":[]}`)}},
			Error: &v1alpha1.TaskError{Code: -32603, Message: "m"},
		}
		if err := k8s.Status().Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		for _, patch := range []string{`{"status":{"state":"working"}}`, `{"status":{"state":null}}`, `{"status":null}`, `{"status":{"state":"input_required"}}`} {
			refusedWith(t, k8s.Status().Patch(t.Context(), task.DeepCopy(), mergePatch(patch)), "is final")
		}
		for _, patch := range []string{`{"status":{"result":null}}`, `{"status":{"result":{"size":4}}}`, `{"status":{"error":null}}`, `{"status":{"error":{"message":"n"}}}`} {
			refusedWith(t, k8s.Status().Patch(t.Context(), task.DeepCopy(), mergePatch(patch)), "final once the task has ended")
		}
		if err := k8s.Status().Patch(t.Context(), task.DeepCopy(), mergePatch(`{"status":{"message":"the same in other words"}}`)); err != nil {
			t.Error(err)
		}
	}
}

func TestTaskKeepsItsArgumentsAsTheyWere(t *testing.T) {
	task := newTask(newNamespace(t))
	task.Spec.Arguments.Raw = []byte(`{"none":null,"big":9223372036854775807,"text":"$(X) \u0000 é","deep":{"a":[{},[],""]},"ttl":"x"}`)
	create(t, task)
	var stored v1alpha1.McpTask
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(task), &stored); err != nil {
		t.Fatal(err)
	}
	if got, want := canonical(t, stored.Spec.Arguments.Raw), canonical(t, task.Spec.Arguments.Raw); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTasksAreSelectableByToolAndState(t *testing.T) {
	ns := newNamespace(t)
	one, two := newTask(ns), newTask(ns)
	two.Spec.ToolName = "other"
	create(t, one)
	create(t, two)
	if err := k8s.Status().Patch(t.Context(), two, mergePatch(`{"status":{"state":"failed"}}`)); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]string{"spec.toolName=nobody": one.Name, "status.state=failed": two.Name} {
		var list v1alpha1.McpTaskList
		key, value, _ := strings.Cut(selector, "=")
		if err := k8s.List(t.Context(), &list, client.InNamespace(ns), client.MatchingFields{key: value}); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != want {
			t.Errorf("%s: got %d tasks", selector, len(list.Items))
		}
	}
}

// newTool is a tool whose Pods no scheduler takes: what its node does, the test says.
func newTool(namespace, name string) *v1alpha1.McpTool {
	return &v1alpha1.McpTool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.McpToolSpec{
			Description: "a tool for tests",
			InputSchema: &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"n":{"type":"integer","default":7}}}`)},
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "kept"}},
				Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"pod-note": "kept"}},
					Spec: corev1.PodSpec{
						SchedulerName:  "nobody.mcptask.dev",
						InitContainers: []corev1.Container{{Name: "before", Image: "example.test/image"}},
						Containers:     []corev1.Container{{Name: "work", Image: "example.test/image", Args: []string{"$(ARG_N)"}}},
					},
				}},
			},
		},
	}
}

func TestToolRefusals(t *testing.T) {
	ns := newNamespace(t)
	for name, tc := range map[string]struct {
		change func(*v1alpha1.McpToolSpec)
		words  string
	}{
		"OnFailure": {func(s *v1alpha1.McpToolSpec) {
			s.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}, "jobTemplate.spec.template.spec.restartPolicy: Invalid value: must be Never or absent"},
		"selector":    {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.Selector = &metav1.LabelSelector{} }, "jobTemplate.spec.selector: Invalid value: must be absent"},
		"manual":      {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.ManualSelector = ptr.To(true) }, "must be absent"},
		"ttl":         {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](1) }, "must be absent: the Job is removed by its task"},
		"containers":  {func(s *v1alpha1.McpToolSpec) { s.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{} }, "must have at least one container"},
		"description": {func(s *v1alpha1.McpToolSpec) { s.Description = "" }, "spec.description"},
		"name":        {func(s *v1alpha1.McpToolSpec) { s.Name = "two words" }, "spec.name"},
		"asks":        {func(s *v1alpha1.McpToolSpec) { s.Runtime = &v1alpha1.ToolRuntime{Asks: []v1alpha1.AskMode{"Form"}} }, "questions need runtime.enabled: true"},
		"support":     {func(s *v1alpha1.McpToolSpec) { s.Execution.TaskSupport = "Sometimes" }, "taskSupport"},
		"ttl order": {func(s *v1alpha1.McpToolSpec) {
			s.TTL = &v1alpha1.TTLPolicy{Default: &metav1.Duration{Duration: time.Hour}, Max: &metav1.Duration{Duration: time.Minute}}
		}, "default must not exceed max"},
		"syncWindow": {func(s *v1alpha1.McpToolSpec) { s.Execution.SyncWindow = &metav1.Duration{Duration: time.Hour} }, "must be between 0s and 5m"},
		"maxBytes":   {func(s *v1alpha1.McpToolSpec) { s.Result.MaxBytes = 9 << 20 }, "maxBytes"},
	} {
		tool := newTool(ns, "refused")
		tc.change(&tool.Spec)
		t.Run(name, func(t *testing.T) { refusedWith(t, k8s.Create(t.Context(), tool), tc.words) })
	}
	long := newTool(ns, strings.Repeat("x", 64))
	refusedWith(t, k8s.Create(t.Context(), long), "metadata.name must be at most 63")
}

func TestToolKeepsItsTemplateAndHasDefaults(t *testing.T) {
	tool := newTool(newNamespace(t), "kept")
	create(t, tool)
	template := tool.Spec.JobTemplate
	if template.Labels["team"] != "a" || template.Annotations["note"] != "kept" ||
		template.Spec.Template.Labels["app"] != "x" || template.Spec.Template.Annotations["pod-note"] != "kept" ||
		len(template.Spec.Template.Spec.InitContainers) != 1 {
		t.Errorf("the template lost something: %+v", template)
	}
	e := tool.Spec.Execution
	if e.TaskSupport != v1alpha1.TaskSupportOptional || e.CancelMode != v1alpha1.CancelModeCooperative || e.SyncWindow.Duration != 0 ||
		e.MaxWait.Duration != 50*time.Second || tool.Spec.PollInterval.Duration != 2*time.Second ||
		tool.Spec.StartDeadline.Duration != 5*time.Minute || tool.Spec.Result.Source != v1alpha1.ResultSourceAuto || tool.Spec.Result.MaxBytes != 1<<20 {
		t.Errorf("defaults: %+v %v %v %+v", e, tool.Spec.PollInterval, tool.Spec.StartDeadline, tool.Spec.Result)
	}
}
