package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// maxReports is how many reports the definition of a task lets stand in its status.
const maxReports = 64

// amending is how often, and how fast, a write is tried that others come before: about a second in all.
var amending = wait.Backoff{Steps: 8, Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.5}

// Report implements API.
func (c Client) Report(ctx context.Context, key types.NamespacedName, reports func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error)) (*v1alpha1.McpTask, error) {
	write := func(task *v1alpha1.McpTask, patch client.Patch) error {
		return c.Client.Status().Patch(ctx, task, patch)
	}
	return c.amend(ctx, key, write, func(stored *v1alpha1.McpTask) ([]operation, error) {
		news, err := reports(stored)
		if err != nil || len(news) == 0 {
			return nil, err
		}
		all := slices.Clone(stored.Status.Runtime)
		for _, report := range news {
			of := func(r v1alpha1.RuntimeReport) bool { return r.PodUID == report.PodUID }
			if i := slices.IndexFunc(all, of); i >= 0 {
				all[i] = report
			} else {
				all = append(all, report)
			}
		}
		if len(all) > maxReports { // the controller remembers as many Pods, the newest ones
			all = slices.DeleteFunc(all, func(r v1alpha1.RuntimeReport) bool { return !slices.Contains(stored.Status.PodUIDs, r.PodUID) })
		}
		if equality.Semantic.DeepEqual(stored.Status, v1alpha1.McpTaskStatus{}) { // then there may be no status to add to
			return []operation{{"add", "/status", map[string]any{"runtime": all}}}, nil
		}
		return []operation{{"add", "/status/runtime", all}}, nil
	})
}

// Answer implements API.
func (c Client) Answer(ctx context.Context, key types.NamespacedName, answers func(*v1alpha1.McpTask) []v1alpha1.InputResponse) (*v1alpha1.McpTask, error) {
	write := func(task *v1alpha1.McpTask, patch client.Patch) error { return c.Client.Patch(ctx, task, patch) }
	return c.amend(ctx, key, write, func(stored *v1alpha1.McpTask) ([]operation, error) {
		all := slices.Clone(stored.Spec.InputResponses)
		for _, answer := range answers(stored) {
			if !slices.ContainsFunc(all, func(r v1alpha1.InputResponse) bool { return r.Key == answer.Key }) {
				all = append(all, answer)
			}
		}
		if len(all) == len(stored.Spec.InputResponses) {
			return nil, nil
		}
		return []operation{{"add", "/spec/inputResponses", all}}, nil
	})
}

// Mark implements API.
func (c Client) Mark(ctx context.Context, key types.NamespacedName, annotation string, value func(*v1alpha1.McpTask) string) (*v1alpha1.McpTask, error) {
	write := func(task *v1alpha1.McpTask, patch client.Patch) error { return c.Client.Patch(ctx, task, patch) }
	return c.amend(ctx, key, write, func(stored *v1alpha1.McpTask) ([]operation, error) {
		text := value(stored)
		if text == "" {
			return nil, nil
		}
		all := map[string]string{annotation: text}
		for name, other := range stored.Annotations {
			if name != annotation {
				all[name] = other
			}
		}
		return []operation{{"add", "/metadata/annotations", all}}, nil
	})
}

// operation is one of a JSON patch (RFC 6902). To a merge patch a null in somebody's answer or result would mean "remove this".
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// amend writes a change that was decided from the stored task, provided that the task is still the same; else it is
// read and decided again. The task is read from the API server: what a replica remembers lacks parts that a list which
// is written whole must have.
func (c Client) amend(ctx context.Context, key types.NamespacedName, write func(*v1alpha1.McpTask, client.Patch) error,
	change func(stored *v1alpha1.McpTask) ([]operation, error)) (*v1alpha1.McpTask, error) {
	var task *v1alpha1.McpTask
	err := retry.RetryOnConflict(amending, func() (err error) {
		if task, err = c.Get(ctx, key); err != nil {
			return err
		}
		patch, err := change(task)
		if err != nil || patch == nil {
			return err
		}
		// Another version in the place of the task's own is a conflict.
		raw, err := json.Marshal(append([]operation{{"replace", "/metadata/resourceVersion", task.ResourceVersion}}, patch...))
		if err != nil {
			return fmt.Errorf("patch of task %s: %w", key, err)
		}
		return write(task, client.RawPatch(types.JSONPatchType, raw))
	})
	if err != nil {
		return nil, err
	}
	return task, nil
}
