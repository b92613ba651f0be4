package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Cancel stores the request and returns the task with it, or with the request that somebody stored before.
	Cancel(ctx context.Context, key types.NamespacedName, request v1alpha1.CancelRequest) (*v1alpha1.McpTask, error)
}

// create: a call becomes a task. patch: a cancellation is written into its spec.
//
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks,verbs=create;patch

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
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"cancel": request}})
	if err != nil {
		return nil, fmt.Errorf("cancel request of task %s: %w", key, err)
	}
	task := &v1alpha1.McpTask{}
	task.Namespace, task.Name = key.Namespace, key.Name
	err = c.Client.Patch(ctx, task, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsInvalid(err) { // a request cannot be changed: perhaps another came first
		stored, getErr := c.Get(ctx, key)
		if getErr == nil && stored.Spec.Cancel != nil {
			return stored, nil
		}
	}
	return task, err
}
