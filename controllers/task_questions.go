package controllers

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// Reasons of the Events about questions.
const (
	eventAsked    = "QuestionAsked"
	eventAnswered = "QuestionAnswered"
)

// maxQuestions is how many questions a task can hold.
const maxQuestions = 256

// collectQuestions adds to the task's questions those that its Pods reported, in the order in which they were first seen, and
// marks the answered ones. A key is one question for the life of the task, whichever attempt asks it.
func collectQuestions(task *v1alpha1.McpTask, now time.Time) {
	status := &task.Status
	for i := range status.Runtime {
		for _, asked := range status.Runtime[i].InputRequests {
			if findQuestion(status.InputRequests, asked.Key) == nil && len(status.InputRequests) < maxQuestions {
				status.InputRequests = append(status.InputRequests, v1alpha1.InputRequest{
					Key: asked.Key, Method: asked.Method, Params: asked.Params, RequestedAt: &metav1.Time{Time: now},
				})
			}
		}
	}
	for i := range status.InputRequests {
		q := &status.InputRequests[i]
		q.Answered = q.Answered || decide.Answer(task, q.Key) != nil
	}
}

func findQuestion(questions []v1alpha1.InputRequest, key string) *v1alpha1.InputRequest {
	i := slices.IndexFunc(questions, func(q v1alpha1.InputRequest) bool { return q.Key == key })
	if i < 0 {
		return nil
	}
	return &questions[i]
}

// tellQuestions makes Events of the questions and answers that a write has added: who answered what, and through what, but not
// what the answer was. The key is part of each Event's action, because Events that differ in their words alone are counted as one.
func (r *TaskReconciler) tellQuestions(before, task *v1alpha1.McpTask) {
	for _, q := range task.Status.InputRequests {
		known := findQuestion(before.Status.InputRequests, q.Key)
		if known == nil {
			r.Events.Eventf(task, nil, corev1.EventTypeNormal, eventAsked, clip("Ask "+q.Key, maxAction), "%s", clip("the work asks "+q.Key+": "+decide.Message(&q), 900))
		}
		if q.Answered && (known == nil || !known.Answered) {
			r.Events.Eventf(task, nil, corev1.EventTypeNormal, eventAnswered, clip("Answer "+q.Key, maxAction), "%s", clip(answeredWords(decide.Answer(task, q.Key)), 1000))
		}
	}
}

func answeredWords(answer *v1alpha1.InputResponse) string {
	who, through := "somebody", ""
	if by := answer.AnsweredBy; by != nil {
		who = by.Principal
		if by.Via != "" {
			through = " through " + by.Via
		}
	}
	return fmt.Sprintf("%s answered %s%s (%s)", who, answer.Key, through, action(answer))
}

// action is what the person did with the question (2026-07-28, client/elicitation, Response Actions).
func action(answer *v1alpha1.InputResponse) string {
	var response struct {
		Action string `json:"action"`
	}
	if err := json.Unmarshal(answer.Response.Raw, &response); err == nil && slices.Contains([]string{"accept", "decline", "cancel"}, response.Action) {
		return response.Action
	}
	return "no known action"
}
