//go:build integration

package mcpbridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/runtimeport"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// podOf is the Pod of a task, as its sidecar sees itself.
type podOf struct {
	*corev1.Pod
	task  types.NamespacedName
	token string
}

// newPod makes a Pod with a token that is bound to it, as kubelet would ask for.
func newPod(t *testing.T, namespace, audience string) (*corev1.Pod, string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "work"}}
	if err := client.IgnoreAlreadyExists(k8s.Create(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "work-"},
		Spec:       corev1.PodSpec{ServiceAccountName: "work", Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}
	if err := k8s.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.IgnoreNotFound(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
			t.Error(err)
		}
	})
	return pod, podToken(t, pod, audience)
}

func podToken(t *testing.T, pod *corev1.Pod, audience string) string {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request, err := clientset.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// startPods gives a task Pods that it knows of.
func startPods(t *testing.T, key types.NamespacedName, n int) []podOf {
	t.Helper()
	task := stored(t, key)
	var pods []podOf
	status := v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking}
	for range n {
		pod, token := newPod(t, key.Namespace, runtimeport.Audience(task))
		status.PodUIDs = append(status.PodUIDs, pod.UID)
		pods = append(pods, podOf{Pod: pod, task: key, token: token})
	}
	finish(t, key.Namespace, key.Name, status)
	return pods
}

// said is an answer of the runtime port.
type said struct {
	status   int
	raw      string
	Sequence int64  `json:"sequence"`
	Count    int    `json:"count"`
	Error    string `json:"error"`
	Answers  []struct {
		Key      string          `json:"key"`
		Response json.RawMessage `json:"response"`
	} `json:"answers"`
}

func (p podOf) call(t *testing.T, bridge *replica, method, path, body string) said {
	t.Helper()
	url := fmt.Sprintf("%s/v1/namespaces/%s/tasks/%s/%s", bridge.runtime, p.task.Namespace, p.task.Name, path)
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return said{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s := said{status: response.StatusCode, raw: string(text)}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || strings.Contains(s.raw, p.token) {
		t.Errorf("%s %s: %v, %s", method, path, err, s.raw)
	}
	return s
}

// report tells, as a sidecar does: it tries again as long as the bridge may still learn of the Pod.
func (p podOf) report(t *testing.T, bridge *replica, body string) said {
	t.Helper()
	for {
		s := p.call(t, bridge, http.MethodPut, "report", body)
		if s.status != http.StatusConflict {
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func ask(key string) string {
	return fmt.Sprintf(`{"key":%q,"method":"elicitation/create","params":{"message":"Is <it> so?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9.0}}}}}`, key)
}

func TestPodsReportAndAreAnsweredThroughAnyReplica(t *testing.T) {
	key := newTask(t, newNamespace(t))
	bridges := []*replica{startBridge(t, nil), startBridge(t, nil)}
	pods := startPods(t, key, 3)
	api := tasks.Client{Client: k8s}

	var working sync.WaitGroup
	for i, pod := range pods {
		working.Go(func() {
			var asked []string
			for round := range 4 {
				question := fmt.Sprintf("question-%d-%d", i, round)
				asked = append(asked, ask(question))
				body := fmt.Sprintf(`{"sequence":%d,"progress":{"current":"%d","total":"4"},"inputRequests":[%s]}`, round+1, round, strings.Join(asked, ","))
				// It reports through one replica and polls the other.
				if s := pod.report(t, bridges[(i+round)%2], body); s.status != http.StatusOK || s.Sequence != int64(round+1) {
					t.Errorf("report %d of Pod %d: HTTP %d with %s", round+1, i, s.status, s.raw)
				}
				working.Go(func() {
					if _, err := api.Answer(t.Context(), key, func(task *v1alpha1.McpTask) []v1alpha1.InputResponse {
						return []v1alpha1.InputResponse{accepted(question)}
					}); err != nil {
						t.Error(err)
					}
				})
				for after, answered := 0, false; !answered; {
					s := pod.call(t, bridges[(i+round+1)%2], http.MethodGet, fmt.Sprintf("answers?after=%d&wait=25", after), "")
					if s.status != http.StatusOK || s.Count < after || len(s.Answers) != s.Count {
						t.Errorf("answers of Pod %d: HTTP %d with %s", i, s.status, s.raw)
						return
					}
					after = s.Count
					for _, a := range s.Answers {
						answered = answered || a.Key == question && string(a.Response) == string(accepted("").Response.Raw)
					}
				}
			}
			text := strings.Repeat(`<"é`, 10_000)
			result, _ := json.Marshal(map[string]any{"content": []map[string]any{{"type": "text", "text": text}}, "structuredContent": map[string]any{"n": 1.0, "a": "<&>"}})
			body := fmt.Sprintf(`{"sequence":5,"inputRequests":[%s],"outcome":"result","result":%s}`, strings.Join(asked, ","), result)
			for range 2 { // the second time nothing is to be done
				if s := pod.report(t, bridges[i%2], body); s.status != http.StatusOK || s.Sequence != 5 {
					t.Errorf("result of Pod %d: HTTP %d with %s", i, s.status, s.raw)
				}
			}
		})
	}
	working.Wait()

	task := stored(t, key)
	if len(task.Status.Runtime) != len(pods) || len(task.Spec.InputResponses) != 4*len(pods) || task.Status.State != v1alpha1.TaskWorking {
		t.Fatalf("stored are %d reports and %d answers, state %s", len(task.Status.Runtime), len(task.Spec.InputResponses), task.Status.State)
	}
	for _, r := range task.Status.Runtime {
		if r.Sequence != 5 || len(r.InputRequests) != 4 || r.Outcome != "result" || r.Result == nil || r.Progress != nil || r.ReportedAt == nil {
			t.Fatalf("stored is %+v", r)
		}
		kept := inSecrets(t, task, r.Result)
		var got struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(kept, &got); err != nil || r.Result.Truncated || r.Result.Inline != nil || len(got.Content) != 1 || got.Content[0].Text != strings.Repeat(`<"é`, 10_000) {
			t.Errorf("%v; of a result of %d bytes %d are kept, in %+v", err, r.Result.Size, len(kept), r.Result.SecretRef)
		}
	}

	// What is stored already is known to be so, in the form in which the API server keeps it.
	var asked []string
	for round := range 4 {
		asked = append(asked, ask(fmt.Sprintf("question-0-%d", round)))
	}
	eventually(t, "the watch shows what was written", func() bool {
		return pods[0].call(t, bridges[1], http.MethodGet, "answers?after=0", "").Count == 4*len(pods)
	})
	first := func(sequence int) string {
		return fmt.Sprintf(`{"sequence":%d,"inputRequests":[%s]}`, sequence, strings.Join(asked, ","))
	}
	if s := pods[0].report(t, bridges[0], first(6)); s.status != http.StatusOK {
		t.Fatalf("HTTP %d with %s", s.status, s.raw)
	}
	version, before := stored(t, key).ResourceVersion, bridges[0].requests.len()
	for sequence := 7; sequence < 10; sequence++ {
		if s := pods[0].report(t, bridges[0], first(sequence)); s.status != http.StatusOK || s.Sequence != int64(sequence) {
			t.Errorf("HTTP %d with %s", s.status, s.raw)
		}
	}
	if made := bridges[0].requests.since(before); len(made) != 0 || stored(t, key).ResourceVersion != version {
		t.Errorf("reports without news made the requests %v", made)
	}
}

func TestOnlyThePodsOfATaskAreHeard(t *testing.T) {
	namespace := newNamespace(t)
	key, otherKey := newTask(t, namespace), newTask(t, namespace)
	bridge := startBridge(t, nil)
	pods := startPods(t, key, 2)
	pod := pods[0]
	other := startPods(t, otherKey, 1)[0]
	if s := pod.report(t, bridge, `{"sequence":1}`); s.status != http.StatusOK {
		t.Fatalf("HTTP %d with %s", s.status, s.raw)
	}
	here := runtimeport.Audience(stored(t, key))
	newcomer, newcomersToken := newPod(t, namespace, here)
	elsewhere := newNamespace(t)
	_, strangersToken := newPod(t, elsewhere, here)
	if err := k8s.Delete(t.Context(), pods[1].Pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		task   types.NamespacedName
		token  string
		status int
	}{
		"another task's Pod with its own token":        {key, other.token, 404},
		"the task's Pod, at another task":              {otherKey, pod.token, 404},
		"the task's Pod with a token for the API":      {key, podToken(t, pod.Pod, "https://kubernetes.default.svc"), 404},
		"a Pod that the task does not know of":         {key, newcomersToken, 409},
		"a Pod of another namespace":                   {key, strangersToken, 403},
		"the service account without a Pod":            {key, token(t, namespace, "work", here), 403},
		"a Pod that was deleted":                       {key, pods[1].token, 404},
		"a token that was changed":                     {key, pod.token[:len(pod.token)-8] + "AAAAAAAA", 404},
		"no such task":                                 {types.NamespacedName{Namespace: namespace, Name: v1alpha1.NewTaskID()}, pod.token, 404},
		"another task's Pod that took over its token":  {otherKey, podToken(t, newcomer, runtimeport.Audience(stored(t, otherKey))), 409},
		"another task's Pod, with the task's audience": {key, podToken(t, other.Pod, here), 409},
	} {
		caller := podOf{task: tc.task, token: tc.token}
		for method, path := range map[string]string{http.MethodPut: "report", http.MethodGet: "answers?wait=25"} {
			if s := caller.call(t, bridge, method, path, `{"sequence":9,"outcome":"cancelled"}`); s.status != tc.status || s.Error == "" {
				t.Errorf("%s, %s: HTTP %d with %s", name, path, s.status, s.raw)
			}
		}
	}
	for _, k := range []types.NamespacedName{key, otherKey} {
		for _, r := range stored(t, k).Status.Runtime {
			if r.Outcome != "" {
				t.Errorf("stored is %+v", r)
			}
		}
	}

	polled := make(chan said, 1)
	go func() { polled <- pod.call(t, bridge, http.MethodGet, "answers?wait=60", "") }()
	finish(t, key.Namespace, key.Name, v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled, PodUIDs: []types.UID{pod.UID}})
	select {
	case s := <-polled:
		if s.status != http.StatusGone {
			t.Errorf("who waits when the task ends gets HTTP %d with %s", s.status, s.raw)
		}
	case <-time.After(patience):
		t.Fatal("the end of the task ends no poll")
	}
	if s := pod.call(t, bridge, http.MethodPut, "report", `{"sequence":2,"stateName":"late"}`); s.status != http.StatusGone {
		t.Errorf("a report after the end: HTTP %d with %s", s.status, s.raw)
	}
}

func TestTheEndOfABridgeEndsPollsAndWritesReports(t *testing.T) {
	key := newTask(t, newNamespace(t))
	bridge := startBridge(t, nil)
	pod := startPods(t, key, 1)[0]
	if s := pod.report(t, bridge, `{"sequence":1,"progress":{"current":"1"}}`); s.status != http.StatusOK {
		t.Fatalf("HTTP %d with %s", s.status, s.raw)
	}
	start := time.Now()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if s := pod.call(t, bridge, http.MethodGet, "answers?wait=60", ""); s.status != http.StatusOK || s.Count != 0 {
			t.Errorf("the poll got HTTP %d with %s", s.status, s.raw)
		}
	})
	waiting.Go(func() {
		if s := pod.call(t, bridge, http.MethodPut, "report", `{"sequence":2,"progress":{"current":"2"}}`); s.status != http.StatusOK || s.Sequence != 2 {
			t.Errorf("the report got HTTP %d with %s", s.status, s.raw)
		}
	})
	eventually(t, "the poll waits, and so does the report", func() bool {
		response, err := http.Get(bridge.metrics + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), "mcptask_bridge_runtime_waiting_polls 1") && strings.Contains(string(text), "mcptask_bridge_runtime_held_reports 1")
	})
	bridge.stop()
	waiting.Wait()
	if err := bridge.stopped(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %s", took)
	}
	if r := stored(t, key).Status.Runtime; len(r) != 1 || r[0].Sequence != 2 {
		t.Errorf("stored is %+v", r)
	}
}
