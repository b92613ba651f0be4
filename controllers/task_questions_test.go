package controllers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func question(key string) v1alpha1.InputRequest {
	return v1alpha1.InputRequest{Key: key, Method: "elicitation/create", Params: runtime.RawExtension{Raw: []byte(`{"message":"Approve?"}`)}}
}

func response(key, raw string, by *v1alpha1.Answerer) v1alpha1.InputResponse {
	return v1alpha1.InputResponse{Key: key, Response: runtime.RawExtension{Raw: []byte(raw)}, AnsweredBy: by}
}

func TestQuestionsOfAllPodsBecomeTheTasks(t *testing.T) {
	earlier := metav1.NewTime(noon.Add(-time.Hour))
	known := question("b-1")
	known.RequestedAt = &earlier
	task := &v1alpha1.McpTask{Status: v1alpha1.McpTaskStatus{
		InputRequests: []v1alpha1.InputRequest{known},
		Runtime: []v1alpha1.RuntimeReport{
			{PodUID: "1", InputRequests: []v1alpha1.InputRequest{question("b-1"), question("a-1")}},
			{PodUID: "2", InputRequests: []v1alpha1.InputRequest{question("b-1"), question("c-1")}},
		},
	}}
	task.Spec.InputResponses = []v1alpha1.InputResponse{response("a-1", `{"action":"accept"}`, nil)}
	collectQuestions(task, noon)
	var got []string
	for _, q := range task.Status.InputRequests {
		got = append(got, fmt.Sprintf("%s %s %v", q.Key, q.RequestedAt.UTC().Format("15:04"), q.Answered))
	}
	if want := []string{"b-1 11:00 false", "a-1 12:00 true", "c-1 12:00 false"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	again := task.DeepCopy()
	collectQuestions(again, noon.Add(time.Hour))
	if len(again.Status.InputRequests) != 3 || !again.Status.InputRequests[2].RequestedAt.Equal(task.Status.InputRequests[2].RequestedAt) {
		t.Errorf("a second look changes %+v", again.Status.InputRequests)
	}
}

func TestATaskHoldsSoManyQuestions(t *testing.T) {
	task := &v1alpha1.McpTask{}
	for pod := range 2 {
		var asked []v1alpha1.InputRequest
		for i := range maxQuestions {
			asked = append(asked, question(fmt.Sprintf("%d-%d", pod, i)))
		}
		task.Status.Runtime = append(task.Status.Runtime, v1alpha1.RuntimeReport{InputRequests: asked})
	}
	collectQuestions(task, noon)
	if n := len(task.Status.InputRequests); n != maxQuestions {
		t.Errorf("%d questions", n)
	}
}

func TestEventsTellWhoAnsweredAndNotWhat(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &TaskReconciler{Events: recorder}
	before, task := &v1alpha1.McpTask{}, &v1alpha1.McpTask{}
	before.Status.InputRequests = []v1alpha1.InputRequest{question("old-1")}
	task.Status.Runtime = []v1alpha1.RuntimeReport{{InputRequests: []v1alpha1.InputRequest{question("old-1"), question("new-1"), question("open-1")}}}
	task.Spec.InputResponses = []v1alpha1.InputResponse{
		response("old-1", `{"action":"accept","content":{"pin":"1234"}}`, &v1alpha1.Answerer{Principal: "ann@example.com", Via: "kubectl"}),
		response("new-1", `{"action":"pin 1234"}`, nil),
	}
	collectQuestions(task, noon)
	r.tellQuestions(before, task)
	r.tellQuestions(task, task)
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	want := []string{
		"Normal QuestionAnswered ann@example.com answered old-1 through kubectl (accept)",
		"Normal QuestionAsked the work asks new-1: Approve?",
		"Normal QuestionAnswered somebody answered new-1 (no known action)",
		"Normal QuestionAsked the work asks open-1: Approve?",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
