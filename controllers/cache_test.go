package controllers

import (
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestEndedTasksAreKeptSlim(t *testing.T) {
	task := &v1alpha1.McpTask{}
	task.Status.Runtime = []v1alpha1.RuntimeReport{{PodUID: "1", Result: &v1alpha1.TaskResult{}}}
	task.Status.InputRequests = []v1alpha1.InputRequest{question("a-1")}
	task.Spec.InputResponses = []v1alpha1.InputResponse{response("a-1", `{}`, nil)}
	if _, err := slimTask(task); err != nil || len(task.Status.Runtime)+len(task.Status.InputRequests)+len(task.Spec.InputResponses) != 3 {
		t.Errorf("%v: of a working task something is missing: %+v", err, task)
	}
	task.Status.State = v1alpha1.TaskCompleted
	if _, err := slimTask(task); err != nil || len(task.Status.Runtime)+len(task.Status.InputRequests)+len(task.Spec.InputResponses) != 0 {
		t.Errorf("%v: of an ended task too much is kept: %+v", err, task)
	}
}
