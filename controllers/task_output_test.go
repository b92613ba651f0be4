package controllers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
	"github.com/mcptask/mcptask/controllers/lastwords"
)

// withLogs is a reconciler that reads these logs, by container; a container without one has none that can be read. It fails the
// test when a log is read that need not be.
func withLogs(t *testing.T, source v1alpha1.ResultSource, logs map[string]string) *TaskReconciler {
	t.Helper()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log, ok := logs[r.URL.Query().Get("container")]
		if !strings.HasSuffix(r.URL.Path, "/pods/t-x/log") || !ok {
			http.Error(w, "no such log", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, log)
	}))
	t.Cleanup(node.Close)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: node.URL})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	tool := &v1alpha1.McpTool{ObjectMeta: metav1.ObjectMeta{Name: "tool", Namespace: "ns"}, Spec: v1alpha1.McpToolSpec{Result: v1alpha1.ToolResult{Source: source}}}
	return &TaskReconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(tool).Build(), Kubernetes: clientset, large: semaphore.NewWeighted(largeOutputs), LastWords: lastwords.New(openLog(clientset)), Now: func() time.Time { return noon }}
}

// afterwards is a task whose Job has ended well, and its Pod with the sidecar.
func afterwards(reports ...v1alpha1.RuntimeReport) *decide.Input {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(noon.Add(-time.Minute)), FinishedAt: metav1.NewTime(noon.Add(-time.Second))}}
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns", UID: "task-uid"}, Spec: v1alpha1.McpTaskSpec{ToolName: "tool"}}
	task.Status.Runtime = reports
	return &decide.Input{
		Task: task, Now: noon,
		Job: &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns", Annotations: map[string]string{v1alpha1.AnnotationContainer: "work"},
				OwnerReferences: []metav1.OwnerReference{{UID: "task-uid", Controller: ptr.To(true)}}},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
		},
		Pods: []corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "t-x", Namespace: "ns", UID: "a"},
			Spec: corev1.PodSpec{NodeName: "node1", InitContainers: []corev1.Container{{Name: jobs.SidecarName, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
				Containers: []corev1.Container{{Name: "work"}}},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded,
				InitContainerStatuses: []corev1.ContainerStatus{{Name: jobs.SidecarName, State: ended}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "work", State: ended}}},
		}},
	}
}

func handedOver(raw string) v1alpha1.RuntimeReport {
	return v1alpha1.RuntimeReport{PodUID: "a", Outcome: "result", Result: &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(raw)}}}
}

// outcome decides on the task and makes its result, as the reconciler does.
func outcome(t *testing.T, r *TaskReconciler, seen *decide.Input) (decide.Verdict, string) {
	t.Helper()
	var err error
	if seen.Undelivered, err = r.undelivered(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	verdict := decide.Decide(seen)
	result, err := r.output(t.Context(), seen.Task, seen, &verdict)
	if err != nil {
		t.Fatal(err)
	}
	if result == nil {
		return verdict, ""
	}
	return verdict, string(result.Inline.Raw)
}

func TestWhereTheResultComesFrom(t *testing.T) {
	const given = `{"content":[{"type":"text","text":"given"}]}`
	logs := map[string]string{"work": "from the log\n", jobs.SidecarName: "quiet\n"}
	for name, tc := range map[string]struct {
		source v1alpha1.ResultSource
		logs   map[string]string
		seen   *decide.Input
		words  string
	}{
		"Auto, handed over":                   {v1alpha1.ResultSourceAuto, nil, afterwards(handedOver(given)), `"given"`},
		"Auto, nothing handed over":           {v1alpha1.ResultSourceAuto, logs, afterwards(), "from the log"},
		"Log, handed over all the same":       {v1alpha1.ResultSourceLog, logs, afterwards(handedOver(given)), "from the log"},
		"File, handed over":                   {v1alpha1.ResultSourceFile, nil, afterwards(handedOver(given)), `"given"`},
		"File, nothing handed over":           {v1alpha1.ResultSourceFile, logs, afterwards(), "without handing over a result"},
		"Auto, a report without an outcome":   {v1alpha1.ResultSourceAuto, logs, afterwards(v1alpha1.RuntimeReport{PodUID: "a", StateName: "x"}), "from the log"},
		"Auto, what was handed over is wrong": {v1alpha1.ResultSourceAuto, logs, failedWith(3, afterwards(handedOver(`[]`))), "from the log"},
	} {
		t.Run(name, func(t *testing.T) {
			if verdict, result := outcome(t, withLogs(t, tc.source, tc.logs), tc.seen); verdict.State != v1alpha1.TaskCompleted || !strings.Contains(result, tc.words) {
				t.Errorf("%s/%s with %s", verdict.State, verdict.Reason, result)
			}
		})
	}
}

// failedWith makes the work end with an exit code.
func failedWith(code int32, seen *decide.Input) *decide.Input {
	seen.Job.Status.Conditions[0].Type = batchv1.JobFailed
	seen.Pods[0].Status.Phase = corev1.PodFailed
	seen.Pods[0].Status.ContainerStatuses[0].State.Terminated.ExitCode = code
	return seen
}

func TestWhatASidecarCouldNotDeliverIsInItsLog(t *testing.T) {
	line := func(report string) map[string]string {
		return map[string]string{"work": "from the log\n", jobs.SidecarName: "the bridge does not answer\n{\"mcptask.dev/report\":" + report + "}\n"}
	}
	result := `{"sequence":4,"outcome":"result","result":{"content":[{"type":"text","text":"late"}]}}`
	verdict, raw := outcome(t, withLogs(t, v1alpha1.ResultSourceAuto, line(result)), afterwards(v1alpha1.RuntimeReport{PodUID: "a", Sequence: 3}))
	if verdict.State != v1alpha1.TaskCompleted || raw != `{"content":[{"text":"late","type":"text"}]}` {
		t.Errorf("%s/%s with %s", verdict.State, verdict.Reason, raw)
	}
	verdict, _ = outcome(t, withLogs(t, v1alpha1.ResultSourceAuto, line(`{"sequence":4,"outcome":"failed","error":{"code":17,"message":"no stock"}}`)), afterwards())
	if verdict.Reason != v1alpha1.ReasonToolFailed || verdict.Error.Code != 17 {
		t.Errorf("%s/%s %+v", verdict.State, verdict.Reason, verdict.Error)
	}
	verdict, raw = outcome(t, withLogs(t, v1alpha1.ResultSourceAuto, line(result)), afterwards(handedOver(`{"content":[]}`)))
	if verdict.State != v1alpha1.TaskCompleted || raw != `{"content":[]}` {
		t.Errorf("what was delivered counts: %s with %s", verdict.State, raw)
	}
}

func TestTheLogOfASidecarIsWaitedForAndNotForEver(t *testing.T) {
	r := withLogs(t, v1alpha1.ResultSourceAuto, map[string]string{"work": "from the log\n"})
	seen := afterwards()
	if _, err := r.undelivered(t.Context(), seen); err == nil {
		t.Error("the log cannot be read, and the task ends at once")
	}
	seen.Now = noon.Add(2 * awaitLog)
	if report, err := r.undelivered(t.Context(), seen); report != nil || err != nil {
		t.Errorf("%+v, %v", report, err)
	}
	seen.Pods[0].Status.InitContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	seen.Now = noon
	if report, err := r.undelivered(t.Context(), seen); report != nil || err != nil {
		t.Errorf("of a sidecar that has not ended: %+v, %v", report, err)
	}
}

// A kubelet that has just started answers 404 for a Pod that it has yet to hear of; the API server passes that on as its own.
func TestANodeThatHasJustStartedIsAskedAgain(t *testing.T) {
	know := false
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !know {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server could not find the requested resource ( pods t-x)","reason":"NotFound","details":{"name":"t-x","kind":"pods"},"code":404}`)
			return
		}
		fmt.Fprint(w, "from the log\n")
	}))
	t.Cleanup(node.Close)
	r := withLogs(t, v1alpha1.ResultSourceAuto, nil)
	var err error
	if r.Kubernetes, err = kubernetes.NewForConfig(&rest.Config{Host: node.URL}); err != nil {
		t.Fatal(err)
	}
	seen := afterwards()
	seen.Pods[0].Spec.InitContainers = nil
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	read := func(live ...client.Object) (string, error) {
		r.Live = fake.NewClientBuilder().WithScheme(scheme).WithObjects(live...).Build()
		verdict := decide.Decide(seen)
		result, err := r.output(t.Context(), seen.Task, seen, &verdict)
		if err != nil {
			return "", err
		}
		return string(result.Inline.Raw), nil
	}
	if raw, err := read(seen.Pods[0].DeepCopy()); err == nil {
		t.Errorf("the Pod is there, and the task ends with %s", raw)
	}
	other := seen.Pods[0].DeepCopy()
	other.UID = "b"
	for what, live := range map[string][]client.Object{"gone": nil, "another of its name": {other}} {
		if raw, err := read(live...); err != nil || !strings.Contains(raw, "The Pod is gone, and its output with it.") {
			t.Errorf("%s: %s, %v", what, raw, err)
		}
	}
	seen.Now = noon.Add(2 * awaitLog)
	if raw, err := read(seen.Pods[0].DeepCopy()); err != nil || !strings.Contains(raw, "its node has not given it for 5m0s") {
		t.Errorf("for ever: %s, %v", raw, err)
	}
	know, seen.Now = true, noon
	if raw, err := read(seen.Pods[0].DeepCopy()); err != nil || !strings.Contains(raw, "from the log") {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestWritesThatDoNotWait(t *testing.T) {
	last := metav1.NewMicroTime(noon.Add(-time.Second))
	base := v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, LastUpdatedAt: &last, JobRef: &v1alpha1.JobReference{}, PodUIDs: nil}
	plain := afterwards().Pods
	plain[0].Spec.InitContainers = nil
	for name, tc := range map[string]struct {
		change func(*v1alpha1.McpTaskStatus)
		pods   []corev1.Pod
		waits  bool
	}{
		"words":                 {func(s *v1alpha1.McpTaskStatus) { s.Message = "m" }, nil, true},
		"state":                 {func(s *v1alpha1.McpTaskStatus) { s.State = v1alpha1.TaskInputRequired }, nil, false},
		"a Pod that may report": {func(*v1alpha1.McpTaskStatus) {}, afterwards().Pods, false},
		"another Pod":           {func(*v1alpha1.McpTaskStatus) {}, plain, true},
		"a question":            {func(s *v1alpha1.McpTaskStatus) { s.InputRequests = []v1alpha1.InputRequest{question("k-1")} }, nil, false},
	} {
		after := base.DeepCopy()
		tc.change(after)
		if wait := coalesceFor(&v1alpha1.McpTask{Status: base}, after, &decide.Input{Pods: tc.pods, Now: noon}); (wait > 0) != tc.waits {
			t.Errorf("%s waits %s", name, wait)
		}
	}
}
