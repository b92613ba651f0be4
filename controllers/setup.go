package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mcptask/mcptask/controllers/jobs"
)

// Setup starts the reconcilers with the manager, whose cache has CacheOptions. runtime is how work reaches its task.
func Setup(ctx context.Context, mgr ctrl.Manager, runtime jobs.Runtime, now func() time.Time) error {
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client for logs: %w", err)
	}
	tools := &ToolReconciler{Client: mgr.GetClient(), Runtime: runtime, Now: now}
	if err := tools.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	tasks := &TaskReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Kubernetes: clientset,
		Events: mgr.GetEventRecorder("mcptask-controller"), Runtime: runtime, Now: now,
	}
	return tasks.SetupWithManager(ctx, mgr)
}
