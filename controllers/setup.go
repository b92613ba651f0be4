package controllers

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mcptask/mcptask/controllers/jobs"
	"github.com/mcptask/mcptask/controllers/lastwords"
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
	instance, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding the name of this replica: %w", err)
	}
	tasks := &TaskReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Kubernetes: clientset,
		Events: NewEventsOnce(mgr.GetClient(), "mcptask-controller", instance), LastWords: lastwords.New(openLog(clientset)), Runtime: runtime, Now: now,
	}
	return tasks.SetupWithManager(ctx, mgr)
}
