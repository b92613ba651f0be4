package runtimeport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/report"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// maxReportsBytes bounds what the Pods of one task may have told at one time: what the API server stores of a task is
// bounded, and the controller and those who answer need room too.
const maxReportsBytes = 512 << 10

// verdict is what becomes of a report.
type verdict struct {
	// outcome is one of the metric's: written, unchanged or stale.
	outcome string
	// sequence of the Pod's report that counts.
	sequence int64
	err      error
}

// judge decides about a report from its task. seen is the last sequence of the Pod that was found unchanged.
//
// A report that says what the stored one says is not written, provided that none can be missing in between: another
// replica may still be about to write the missing one, which would then stand for the newest.
func judge(task *v1alpha1.McpTask, told *v1alpha1.RuntimeReport, seen int64) verdict {
	known := reportOf(task, told.PodUID)
	switch {
	case known == nil:
		return verdict{outcome: written, sequence: told.Sequence}
	case told.Sequence <= known.Sequence:
		return verdict{outcome: stale, sequence: known.Sequence}
	case told.Sequence <= max(known.Sequence, seen)+1 && sameProgress(known, told) && !weighty(known, told):
		return verdict{outcome: unchanged, sequence: told.Sequence}
	}
	return verdict{outcome: written, sequence: told.Sequence}
}

// fits says whether there is room for the report in its task.
func fits(task *v1alpha1.McpTask, told *v1alpha1.RuntimeReport) error {
	if err := report.CheckQuestions(told, task); err != nil {
		return err
	}
	text, err := json.Marshal(append(others(task, told.PodUID), *told))
	if err != nil {
		return fmt.Errorf("writing a report as JSON: %w", err)
	}
	if len(text) > maxReportsBytes {
		return &refusal{http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the reports of all Pods of this task would have %d bytes together, more than %d", len(text), maxReportsBytes), ""}
	}
	return nil
}

// others are the reports of the task's other Pods.
func others(task *v1alpha1.McpTask, pod types.UID) []v1alpha1.RuntimeReport {
	return slices.DeleteFunc(slices.Clone(task.Status.Runtime), func(r v1alpha1.RuntimeReport) bool { return r.PodUID == pod })
}

func reportOf(task *v1alpha1.McpTask, pod types.UID) *v1alpha1.RuntimeReport {
	for i := range task.Status.Runtime {
		if task.Status.Runtime[i].PodUID == pod {
			return &task.Status.Runtime[i]
		}
	}
	return nil
}

// sameProgress says whether both tell the same of where the work is.
func sameProgress(a, b *v1alpha1.RuntimeReport) bool {
	if a.StateName != b.StateName || (a.Progress == nil) != (b.Progress == nil) {
		return false
	}
	return a.Progress == nil || *a.Progress == *b.Progress
}

// weighty says whether a report tells more than progress: a question, or how the work ended. Such a report is written
// at once.
func weighty(known, told *v1alpha1.RuntimeReport) bool {
	if known == nil {
		known = &v1alpha1.RuntimeReport{}
	}
	sameQuestion := func(a, b v1alpha1.InputRequest) bool {
		return a.Key == b.Key && a.Method == b.Method && report.Same(a.Params.Raw, b.Params.Raw)
	}
	return known.Outcome != told.Outcome || !slices.EqualFunc(known.InputRequests, told.InputRequests, sameQuestion) ||
		!sameResult(known.Result, told.Result) || !sameError(known.Error, told.Error)
}

// sameResult compares by hash: a replica does not remember the results themselves.
func sameResult(a, b *v1alpha1.TaskResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SHA256 == b.SHA256 && a.Size == b.Size
}

func sameError(a, b *v1alpha1.TaskError) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Code != b.Code || a.Message != b.Message || (a.Data == nil) != (b.Data == nil) {
		return false
	}
	return a.Data == nil || report.Same(a.Data.Raw, b.Data.Raw)
}
