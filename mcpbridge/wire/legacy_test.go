package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestQuestionIDsAreReadBack(t *testing.T) {
	const task = "abcdefghijklmnopqrstuvwxyz"
	for _, key := range []string{"a-1", "a/b", `"`, "ü", strings.Repeat("k", 128)} {
		id, err := json.Marshal(QuestionID(task, key))
		if err != nil {
			t.Fatal(err)
		}
		if gotTask, gotKey, ok := ReadQuestionID(id); !ok || gotTask != task || gotKey != key {
			t.Errorf("%q: %q, %q, %v", key, gotTask, gotKey, ok)
		}
	}
	for _, id := range []string{``, `1`, `""`, `"mcptask/"`, `"mcptask/x/a"`, `"mcptask/` + task + `"`, `"mcptask/` + task + `/"`, `"` + task + `/a"`} {
		if _, _, ok := ReadQuestionID(json.RawMessage(id)); ok {
			t.Errorf("%s is taken for one of ours", id)
		}
	}
}

func TestWhatOlderClientsCanAsk(t *testing.T) {
	for _, tc := range []struct {
		version, capabilities string
		want                  Elicitation
	}{
		{Version20251125, `{}`, Elicitation{}},
		{Version20251125, `{"elicitation":{}}`, Elicitation{Form: true}},
		{Version20251125, `{"elicitation":{"url":{}}}`, Elicitation{URL: true}},
		{Version20251125, `{"elicitation":{"form":{},"url":{}}}`, Elicitation{Form: true, URL: true}},
		{Version20250618, `{"elicitation":{}}`, Elicitation{Form: true}},
		{Version20250618, `{"elicitation":{"form":{},"url":{}}}`, Elicitation{Form: true}},
		{Version20250618, `{}`, Elicitation{}},
		{Version20250326, `{"elicitation":{}}`, Elicitation{}},
	} {
		if got := LegacyElicitation(tc.version, json.RawMessage(tc.capabilities)); got != tc.want {
			t.Errorf("%s with %s: %+v", tc.version, tc.capabilities, got)
		}
	}
}

func TestACancelledTaskStaysAsItWas(t *testing.T) {
	task := &v1alpha1.McpTask{}
	task.Name, task.CreationTimestamp = "abcdefghijklmnopqrstuvwxyz", metav1.NewTime(time.Unix(1000, 0))
	at := metav1.NewTime(time.Unix(2000, 0))
	task.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true, At: &at}
	first := *NewLegacyTask(task, taskOf(task, Tool{}, Elicitation{}))
	if first.Status != v1alpha1.TaskCancelled || first.LastUpdatedAt != "1970-01-01T00:33:20Z" {
		t.Errorf("it is %+v", first)
	}
	later := metav1.NewMicroTime(time.Unix(3000, 0))
	for _, status := range []v1alpha1.McpTaskStatus{
		{State: v1alpha1.TaskWorking, Message: "m", LastUpdatedAt: &later},
		{State: v1alpha1.TaskCompleted, LastUpdatedAt: &later},
		{State: v1alpha1.TaskCancelled, Message: "m", LastUpdatedAt: &later},
	} {
		task.Status = status
		if now := *NewLegacyTask(task, taskOf(task, Tool{}, Elicitation{})); now != first {
			t.Errorf("%s: it is %+v", status.State, now)
		}
	}
}

func TestALongErrorIsCutForTheStatusMessage(t *testing.T) {
	result := ErrorResult(strings.Repeat("ä", maxStatusMessage))
	task := NewLegacyTask(&v1alpha1.McpTask{}, &Task{Status: v1alpha1.TaskCompleted, Result: result})
	if len(task.StatusMessage) > maxStatusMessage+len("…") || !strings.HasSuffix(task.StatusMessage, "ä…") {
		t.Errorf("it ends with %q", task.StatusMessage[len(task.StatusMessage)-10:])
	}
}
