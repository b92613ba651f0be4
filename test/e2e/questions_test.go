//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// person is an agent with a person who answers forms and follows links.
func person(t *testing.T, cluster *harness.Cluster, replica, namespace string) *mcpclient.Client {
	t.Helper()
	token := cluster.Token(t, namespace, "agent", harness.Audience(namespace))
	return mcpclient.New(replica+"/mcp/"+namespace, mcpclient.Options{
		Tasks:        true,
		Capabilities: map[string]any{"elicitation": map[string]any{"form": struct{}{}, "url": struct{}{}}},
		Token:        func(context.Context) (string, error) { return token, nil },
	})
}

// asked waits until the task asks this many questions and returns them.
func asked(t *testing.T, agent *mcpclient.Client, id string, count int) map[string]mcpclient.InputRequest {
	t.Helper()
	var open map[string]mcpclient.InputRequest
	harness.Eventually(t, time.Minute, id+" asks", func(ctx context.Context) error {
		task, err := agent.GetTask(ctx, id)
		if err != nil {
			return err
		}
		if open = task.InputRequests; len(open) != count {
			return fmt.Errorf("%s, %s, with %d questions", task.Status, task.StatusMessage, len(open))
		}
		return nil
	})
	return open
}

func accept(content string) map[string]any {
	return map[string]any{"action": "accept", "content": json.RawMessage(content)}
}

func onlyKey(questions map[string]mcpclient.InputRequest) string {
	for key := range questions {
		return key
	}
	return ""
}

func TestAQuestionIsAnsweredOverMCP(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask")
	agent := person(t, cluster, cluster.Replicas(t)[0], namespace)
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"amount":12}}`: `{"action":"accept","content":{"amount":12}}`,
		`{"action":"decline"}`:                        `{\"action\":\"decline\"}`, // as text beside its exit code
		`{"action":"cancel"}`:                         `{\"action\":\"cancel\"}`,
	} {
		called := call(t, agent, "ask", `{"message":"How much?"}`)
		key := onlyKey(asked(t, agent, called.Task.ID, 1))
		shown := stored(t, cluster, namespace, called.Task.ID)
		if shown.Status.State != v1alpha1.TaskInputRequired || shown.Status.Reason != v1alpha1.ReasonAwaitingInput {
			t.Errorf("kubectl shows %s/%s", shown.Status.State, shown.Status.Reason)
		}
		if err := agent.UpdateTask(t.Context(), called.Task.ID, map[string]any{key: map[string]any{"action": "accept", "content": map[string]any{"amount": "much"}}}); err == nil {
			t.Error("an answer that does not fit is taken")
		}
		if err := agent.UpdateTask(t.Context(), called.Task.ID, map[string]any{key: json.RawMessage(answer)}); err != nil {
			t.Fatal(err)
		}
		task := finish(t, agent, called)
		if task.Status != mcpclient.Completed || !strings.Contains(string(task.Result.Raw), want) {
			t.Errorf("answered with %s: %s", answer, task.Raw)
		}
	}
	events := ""
	harness.Eventually(t, time.Minute, "the Events say who answered", func(ctx context.Context) error {
		var err error
		events, err = harness.Run(ctx, "", "kubectl", "-n", namespace, "get", "events", "-o", "jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		if n := strings.Count(events, "QuestionAnswered"); n < 3 {
			return fmt.Errorf("%d answers: %s", n, events)
		}
		return nil
	})
	if !strings.Contains(events, "system:serviceaccount:"+namespace+":agent") || !strings.Contains(events, "(decline)") {
		t.Errorf("the Events say %s", events)
	}
}

func TestTheSameQuestionTwiceIsTwoQuestions(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask-twice")
	agent := person(t, cluster, cluster.Replicas(t)[1], namespace)
	called := call(t, agent, "ask-twice", `{}`)
	first := onlyKey(asked(t, agent, called.Task.ID, 1))
	if err := agent.UpdateTask(t.Context(), called.Task.ID, map[string]any{first: accept(`{"ok":true}`)}); err != nil {
		t.Fatal(err)
	}
	second := onlyKey(asked(t, agent, called.Task.ID, 1))
	if first == second {
		t.Fatalf("both are %s", first)
	}
	if err := agent.UpdateTask(t.Context(), called.Task.ID, map[string]any{second: accept(`{"ok":false}`)}); err != nil {
		t.Fatal(err)
	}
	if task := finish(t, agent, called); !strings.Contains(string(task.Result.Raw), `{"answers":[true,false]}`) {
		t.Errorf("got %s", task.Raw)
	}
}

// TestTenQuestionsAtOnce answers ten tasks in a random order through two replicas while one of them restarts.
func TestTenQuestionsAtOnce(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask")
	replicas := cluster.Replicas(t)
	agents := []*mcpclient.Client{person(t, cluster, replicas[0], namespace), person(t, cluster, replicas[1], namespace)}
	pods := cluster.BridgePods(t)
	ids := make([]string, 10)
	for i := range ids {
		ids[i] = call(t, agents[0], "ask", fmt.Sprintf(`{"message":"Question %d"}`, i)).Task.ID
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = onlyKey(asked(t, agents[1], id, 1))
	}
	// The replica behind agents[1] goes; agents[0] answers for both from then on.
	order := rand.Perm(len(ids))
	t.Logf("the order is %v", order)
	for step, i := range order {
		if step == 4 {
			if err := cluster.Client.Delete(t.Context(), &pods[1], client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		}
		through := agents[step%2]
		if step >= 4 {
			through = agents[0]
		}
		if err := through.UpdateTask(t.Context(), ids[i], map[string]any{keys[i]: accept(fmt.Sprintf(`{"amount":%d}`, i))}); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	var group sync.WaitGroup
	for i, id := range ids {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			task, err := agents[0].Wait(ctx, id, nil)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if task.Status != mcpclient.Completed || !strings.Contains(string(task.Result.Raw), fmt.Sprintf(`"amount":%d`, i)) {
				t.Errorf("%s: %s", id, task.Raw)
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		task := stored(t, cluster, namespace, id)
		if len(task.Status.InputRequests) != 1 || len(task.Spec.InputResponses) != 1 {
			t.Errorf("%s was asked %d times and answered %d times", id, len(task.Status.InputRequests), len(task.Spec.InputResponses))
		}
	}
	cluster.AwaitBridge(t)
}

// TestAQuestionSurvivesWhatIsKilled kills, one after the other, all that stands between a question and its answer.
func TestAQuestionSurvivesWhatIsKilled(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask-again")
	agent := person(t, cluster, cluster.Replicas(t)[0], namespace)
	for name, kill := range map[string]func(t *testing.T, pod *corev1.Pod){
		"the controller": func(t *testing.T, _ *corev1.Pod) {
			if _, err := harness.Run(t.Context(), "", "kubectl", "-n", harness.SystemNamespace, "delete", "pod", "-l", "app.kubernetes.io/component=controller", "--grace-period=0", "--force", "--wait=false"); err != nil {
				t.Fatal(err)
			}
		},
		"the sidecar": func(t *testing.T, pod *corev1.Pod) {
			restarts := func() int32 {
				var now corev1.Pod
				if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil {
					t.Fatal(err)
				}
				return now.Status.InitContainerStatuses[0].RestartCount
			}
			before := restarts()
			killIn(t, pod, "/taskrt")
			harness.Eventually(t, time.Minute, "the sidecar is started again", func(context.Context) error {
				if restarts() == before {
					return fmt.Errorf("still %d restarts", before)
				}
				return nil
			})
		},
		"the program": func(t *testing.T, pod *corev1.Pod) { killIn(t, pod, "/mcptask/bin/task") },
		"the Pod": func(t *testing.T, pod *corev1.Pod) {
			if err := cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			called := call(t, agent, "ask-again", `{}`)
			key := onlyKey(asked(t, agent, called.Task.ID, 1))
			pod := podOf(t, cluster, namespace, called.Task.ID)
			kill(t, pod)
			if name == "the Pod" || name == "the program" {
				harness.Eventually(t, time.Minute, "another Pod asks", func(ctx context.Context) error {
					task := stored(t, cluster, namespace, called.Task.ID)
					if len(task.Status.PodUIDs) < 2 || task.Status.State != v1alpha1.TaskInputRequired {
						return fmt.Errorf("%s with %d Pods", task.Status.State, len(task.Status.PodUIDs))
					}
					return nil
				})
			}
			if again := onlyKey(asked(t, agent, called.Task.ID, 1)); again != key {
				t.Errorf("asked was %s, now %s", key, again)
			}
			if err := agent.UpdateTask(t.Context(), called.Task.ID, map[string]any{key: accept(`{"ok":true}`)}); err != nil {
				t.Fatal(err)
			}
			task := finish(t, agent, called)
			if task.Status != mcpclient.Completed || task.Result.IsError || !strings.Contains(string(task.Result.Raw), `"ok":true`) {
				t.Errorf("got %s", task.Raw)
			}
			if n := len(stored(t, cluster, namespace, called.Task.ID).Status.InputRequests); n != 1 {
				t.Errorf("it asked %d questions", n)
			}
		})
	}
}

func TestAToolHandsOverItsOwnErrorProgressAndFiles(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "tool-fails", "tool-tells")
	agent := person(t, cluster, cluster.Replicas(t)[0], namespace)
	failed := finish(t, agent, call(t, agent, "tool-fails", `{}`))
	if failed.Status != mcpclient.Failed || failed.Error.Code != -32000 || failed.Error.Message != "no such ledger" {
		t.Errorf("got %s", failed.Raw)
	}
	called := call(t, agent, "tool-tells", `{}`)
	key := onlyKey(asked(t, agent, called.Task.ID, 1)) // it has told where it is before it asks
	shown := stored(t, cluster, namespace, called.Task.ID)
	if shown.Status.StateName != "halfway" || shown.Status.Progress == nil || shown.Status.Progress.Current != "1" || shown.Status.Progress.Total != "2" {
		t.Errorf("kubectl shows %q, %+v", shown.Status.StateName, shown.Status.Progress)
	}
	if err := agent.UpdateTask(t.Context(), called.Task.ID, map[string]any{key: accept(`{"ok":true}`)}); err != nil {
		t.Fatal(err)
	}
	told := finish(t, agent, called)
	if !strings.Contains(string(told.Result.Raw), `"structuredContent":{"told":"all"}`) {
		t.Errorf("got %s", told.Raw)
	}
}

// killIn ends a program of the Pod, whose containers share their processes.
func killIn(t *testing.T, pod *corev1.Pod, program string) {
	t.Helper()
	if _, err := harness.Run(t.Context(), "", "kubectl", "-n", pod.Namespace, "exec", pod.Name, "-c", "work", "--", "/fixture", "kill", program); err != nil {
		t.Fatal(err)
	}
}

// podOf is the running Pod of a task.
func podOf(t *testing.T, cluster *harness.Cluster, namespace, id string) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := cluster.Client.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelTask: id}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			return &pods.Items[i]
		}
	}
	t.Fatalf("%s has no running Pod", id)
	return nil
}

// TestTheRuntimePortRefusesStrangers asks it with tokens that are not of the task's Pods.
func TestTheRuntimePortRefusesStrangers(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "ask")
	agent := person(t, cluster, cluster.Replicas(t)[0], namespace)
	called := call(t, agent, "ask", `{"message":"How much?"}`)
	asked(t, agent, called.Task.ID, 1)
	task := stored(t, cluster, namespace, called.Task.ID)
	port := "http://" + harness.Forward(t, harness.SystemNamespace, "svc/"+harness.Release+"-bridge-runtime", 8082)
	url := port + "/v1/namespaces/" + namespace + "/tasks/" + called.Task.ID + "/answers?after=0&wait=0"
	for name, audience := range map[string]string{
		"nobody's":                      "",
		"an account's for the endpoint": harness.Audience(namespace),
		"an account's for the task":     "mcptask.dev/" + namespace + "/" + string(task.UID),
		"for another task":              "mcptask.dev/" + namespace + "/00000000-0000-0000-0000-000000000000",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if audience != "" {
			request.Header.Set("Authorization", "Bearer "+cluster.Token(t, namespace, "agent", audience))
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		// Without a token one is asked for; with another's there is no such task.
		if want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusNotFound}[audience == ""]; answer.StatusCode != want && answer.StatusCode != http.StatusForbidden {
			t.Errorf("a token %s: HTTP %d, want %d", name, answer.StatusCode, want)
		}
	}
}
