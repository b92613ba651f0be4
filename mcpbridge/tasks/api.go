package tasks

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// API is what the bridge asks of the API server about tasks.
type API interface {
	// Get reads the stored task.
	Get(ctx context.Context, key types.NamespacedName) (*v1alpha1.McpTask, error)
	// Create stores a new task and returns it as it was stored.
	Create(ctx context.Context, task *v1alpha1.McpTask) (*v1alpha1.McpTask, error)
	// Cancel stores the request and returns the task with it, or with the request that somebody stored before. A task that
	// has ended is returned without one: what finished first stands.
	Cancel(ctx context.Context, key types.NamespacedName, request v1alpha1.CancelRequest) (*v1alpha1.McpTask, error)
	// Report stores what Pods told: each report takes the place of its Pod's last one in status.runtime. reports decides
	// from the task as it is stored, and is asked again when somebody else writes in between; when it returns none,
	// nothing is written. Its error is returned as it is.
	Report(ctx context.Context, key types.NamespacedName, reports func(stored *v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error)) (*v1alpha1.McpTask, error)
	// Answer adds to the answers of spec.inputResponses. answers decides from the task as it is stored, and is asked
	// again when somebody else writes in between; when it returns none, nothing is written. The first answer to a
	// question stands: another is left out.
	Answer(ctx context.Context, key types.NamespacedName, answers func(stored *v1alpha1.McpTask) []v1alpha1.InputResponse) (*v1alpha1.McpTask, error)
	// Mark sets an annotation. value decides from the task as it is stored, and is asked again when somebody else writes in
	// between; when it returns "", nothing is written.
	Mark(ctx context.Context, key types.NamespacedName, annotation string, value func(stored *v1alpha1.McpTask) string) (*v1alpha1.McpTask, error)
}

// create: a call becomes a task. patch: a cancellation or an answer is written into its spec, a Pod's report into its
// status.
//
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks,verbs=create;patch
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks/status,verbs=patch

// Client is the API over a client that does not read from a cache.
type Client struct{ Client client.Client }

// Get implements API.
func (c Client) Get(ctx context.Context, key types.NamespacedName) (*v1alpha1.McpTask, error) {
	task := &v1alpha1.McpTask{}
	err := c.Client.Get(ctx, key, task)
	return task, err
}

// Create implements API.
func (c Client) Create(ctx context.Context, task *v1alpha1.McpTask) (*v1alpha1.McpTask, error) {
	created := task.DeepCopy()
	err := c.Client.Create(ctx, created)
	return created, err
}

// Cancel implements API.
func (c Client) Cancel(ctx context.Context, key types.NamespacedName, request v1alpha1.CancelRequest) (*v1alpha1.McpTask, error) {
	write := func(task *v1alpha1.McpTask, patch client.Patch) error { return c.Client.Patch(ctx, task, patch) }
	return c.amend(ctx, key, write, func(stored *v1alpha1.McpTask) ([]operation, error) {
		if stored.Spec.Cancel != nil || stored.Status.State.Terminal() {
			return nil, nil
		}
		return []operation{{"add", "/spec/cancel", request}}, nil
	})
}
