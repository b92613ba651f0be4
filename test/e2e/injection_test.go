//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// The largest text that an argument can be arrives as it was sent, with everything in it that anything could take for something else.
func TestALargeArgumentArrivesWhole(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "measure")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	const odd = "$(DB_PASSWORD)$$(X)$$$ ; rm -rf / `id` $(id) \n\r\t\"'\\ é世界\U0001F980\u202e\u2028"
	text := strings.Repeat(odd, (99<<10)/len(odd))
	arguments, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	if len(arguments) > 128<<10 {
		t.Fatalf("the arguments have %d bytes, which is more than a task holds", len(arguments))
	}
	task := finish(t, agent, call(t, agent, "measure", string(arguments)))
	var got struct {
		Bytes  int
		SHA256 string
	}
	if task.Status != mcpclient.Completed || json.Unmarshal(task.Result.StructuredContent, &got) != nil {
		t.Fatalf("%.500s", task.Raw)
	}
	sum := sha256.Sum256([]byte(text))
	if got.Bytes != len(text) || got.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes arrived of %d, or others", got.Bytes, len(text))
	}
}

// What no environment can hold is refused by name, and nothing is made.
func TestANULInAnArgumentIsRefusedByName(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "echo")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	_, err := agent.CallTool(t.Context(), "echo", json.RawMessage(`{"text":"a\u0000b"}`), mcpclient.CallOptions{})
	refusedWith(t, err, mcpclient.CodeInvalidParams, "/text")
	var tasks v1alpha1.McpTaskList
	if err := cluster.Client.List(t.Context(), &tasks, client.InNamespace(namespace)); err != nil || len(tasks.Items) > 0 {
		t.Errorf("%v, %d tasks", err, len(tasks.Items))
	}
}

// The template's labels, annotations and init containers are in the Pod as they were written, whatever the arguments are; and init
// containers get the arguments as the work does.
func TestTheTemplateArrivesAsItWasWritten(t *testing.T) {
	cluster := connect(t)
	namespace := withTools(t, cluster, "echo")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	const text = "$(DB_PASSWORD) $$(X)"
	arguments, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	task := finish(t, agent, call(t, agent, "echo", string(arguments)))
	if task.Status != mcpclient.Completed {
		t.Fatalf("%s", task.Raw)
	}
	var pods corev1.PodList
	if err := cluster.Client.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelTask: task.ID}); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%v, %d Pods", err, len(pods.Items))
	}
	pod := pods.Items[0]
	if pod.Labels["kueue.x-k8s.io/queue-name"] != "batch" || pod.Annotations["example.com/pod-note"] != "kept" {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
	job := kubectl(t, "", "-n", namespace, "get", "job", task.ID, "-o", `jsonpath={.metadata.labels.team} {.metadata.annotations.example\.com/note}`)
	if job != "a $(ARG_TEXT) stays" {
		t.Errorf("the Job's label and annotation are %q", job)
	}
	logs, err := cluster.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "before"}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	raw, err := io.ReadAll(logs)
	if err != nil {
		t.Fatal(err)
	}
	var before struct{ Args []string }
	if err := json.Unmarshal(raw, &before); err != nil || len(before.Args) != 2 || before.Args[0] != text || before.Args[1] != "" {
		t.Errorf("the init container got %s, %v", raw, err)
	}
}
