package decide

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// asking decides on work that waits for an answer.
func asking(in *Input) *Verdict {
	var words []string
	for i := range in.Pods {
		words = append(words, messages(in.open(&in.Pods[i]))...)
	}
	if len(words) == 0 {
		return nil
	}
	v := awaiting("the work asks: " + strings.Join(words, "; "))
	in.release(v, words)
	return v
}

func awaiting(words string) *Verdict {
	return &Verdict{State: v1alpha1.TaskInputRequired, Reason: v1alpha1.ReasonAwaitingInput, Message: words}
}

// open are the questions of a Pod that nobody has answered and that somebody still asks: those of a Pod that is ending, or
// whose work has ended, died with it. Of the Pods of one Job several may ask at a time: an indexed Job's.
func (in *Input) open(pod *corev1.Pod) []*v1alpha1.InputRequest {
	report := in.Report(pod)
	if report == nil || podEnded(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	if s := workStatus(in.Job, pod); s != nil && s.State.Terminated != nil {
		return nil
	}
	return in.unanswered(report)
}

// unanswered are the questions of a report that nobody has answered.
func (in *Input) unanswered(report *v1alpha1.RuntimeReport) []*v1alpha1.InputRequest {
	var questions []*v1alpha1.InputRequest
	for i := range report.InputRequests {
		if q := &report.InputRequests[i]; Answer(in.Task, q.Key) == nil {
			questions = append(questions, q)
		}
	}
	return questions
}

// Answer is the answer to a question, nil where there is none yet.
func Answer(task *v1alpha1.McpTask, key string) *v1alpha1.InputResponse {
	for i := range task.Spec.InputResponses {
		if a := &task.Spec.InputResponses[i]; a.Key == key {
			return a
		}
	}
	return nil
}

// hasAsked says whether the Pod has asked anything: then the cluster has started it, and a person's time is not the cluster's.
func (in *Input) hasAsked(pod *corev1.Pod) bool {
	report := in.Report(pod)
	return report != nil && len(report.InputRequests) > 0
}

func messages(questions []*v1alpha1.InputRequest) []string {
	var words []string
	for _, question := range questions {
		words = append(words, Message(question))
	}
	return words
}

// Message is what a question says, on one line (2026-07-28, client/elicitation: params.message).
func Message(question *v1alpha1.InputRequest) string {
	var params struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(question.Params.Raw, &params); err != nil || params.Message == "" {
		return "question " + question.Key + ", which has no message"
	}
	return OneLine(params.Message)
}
