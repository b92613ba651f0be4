package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// cluster is an API server in memory, which shows every write to the bridge's store as a watch would, and starts the
// work of every task at once.
type cluster struct {
	store *tasks.Store
	start func(task *v1alpha1.McpTask)

	mu      sync.Mutex
	version int
	tasks   map[types.NamespacedName]*v1alpha1.McpTask
}

var _ tasks.API = (*cluster)(nil)

func newCluster(store *tasks.Store) *cluster {
	return &cluster{store: store, tasks: map[types.NamespacedName]*v1alpha1.McpTask{}}
}

var taskResource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "mcptasks"}

func keyOf(task *v1alpha1.McpTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}

// amend stores a changed task. change may return false: then there is nothing to store.
func (c *cluster) amend(key types.NamespacedName, change func(*v1alpha1.McpTask) bool) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, ok := c.tasks[key]
	if !ok {
		return nil, apierrors.NewNotFound(taskResource, key.Name)
	}
	task := stored.DeepCopy()
	if !change(task) {
		return task, nil
	}
	return c.put(task), nil
}

// put stores a task. The caller holds the lock.
func (c *cluster) put(task *v1alpha1.McpTask) *v1alpha1.McpTask {
	c.version++
	task.ResourceVersion = strconv.Itoa(c.version)
	c.tasks[keyOf(task)] = task.DeepCopy()
	c.store.Observe(task.DeepCopy())
	return task
}

// Get implements tasks.API.
func (c *cluster) Get(_ context.Context, key types.NamespacedName) (*v1alpha1.McpTask, error) {
	return c.amend(key, func(*v1alpha1.McpTask) bool { return false })
}

// Create implements tasks.API.
func (c *cluster) Create(_ context.Context, task *v1alpha1.McpTask) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, exists := c.tasks[keyOf(task)]; exists {
		return nil, apierrors.NewAlreadyExists(taskResource, task.Name)
	}
	created := task.DeepCopy()
	created.UID, created.CreationTimestamp = types.UID("uid-"+task.Name), metav1.Now()
	c.put(created)
	c.start(created.DeepCopy())
	return created, nil
}

// Cancel implements tasks.API.
func (c *cluster) Cancel(_ context.Context, key types.NamespacedName, request v1alpha1.CancelRequest) (*v1alpha1.McpTask, error) {
	return c.amend(key, func(task *v1alpha1.McpTask) bool {
		if task.Status.State.Terminal() || task.Spec.Cancel != nil {
			return false
		}
		task.Spec.Cancel = &request
		return true
	})
}

// Answer implements tasks.API.
func (c *cluster) Answer(_ context.Context, key types.NamespacedName, answers func(*v1alpha1.McpTask) []v1alpha1.InputResponse) (*v1alpha1.McpTask, error) {
	return c.amend(key, func(task *v1alpha1.McpTask) bool {
		before := len(task.Spec.InputResponses)
		for _, answer := range answers(task) {
			if !slices.ContainsFunc(task.Spec.InputResponses, func(r v1alpha1.InputResponse) bool { return r.Key == answer.Key }) {
				task.Spec.InputResponses = append(task.Spec.InputResponses, answer)
			}
		}
		return len(task.Spec.InputResponses) > before
	})
}

// Report implements tasks.API. There are no Pods that could report.
func (c *cluster) Report(context.Context, types.NamespacedName, func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error)) (*v1alpha1.McpTask, error) {
	return nil, errors.New("there are no Pods here")
}

// Mark implements tasks.API.
func (c *cluster) Mark(_ context.Context, key types.NamespacedName, annotation string, value func(*v1alpha1.McpTask) string) (*v1alpha1.McpTask, error) {
	return c.amend(key, func(task *v1alpha1.McpTask) bool {
		text := value(task)
		if text == "" {
			return false
		}
		if task.Annotations == nil {
			task.Annotations = map[string]string{}
		}
		task.Annotations[annotation] = text
		return true
	})
}
