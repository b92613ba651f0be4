package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// The tools are read to check them, and their status is the answer.
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptools,verbs=get;list;watch
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptools/status,verbs=patch
// A dry run needs the right of the real act: it asks the API server whether it would take the Job and its Pod.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=create
// +kubebuilder:rbac:groups="",resources=pods,verbs=create

// ToolReconciler says of each McpTool whether agents may be offered it.
type ToolReconciler struct {
	client.Client
	// Runtime is how the work of a tool would reach its task.
	Runtime jobs.Runtime
	Now     func() time.Time
}

// A tool that the API server refused is tried again: what it lacks, a service account or a priority class, may have
// been made meanwhile. The wait grows with the age of the refusal, between these bounds.
const (
	recheckFirst = time.Second
	recheckLast  = 30 * time.Second
)

// wireNameIndex finds the tools of a namespace by their name on the wire.
const wireNameIndex = "wireName"

// Reconcile checks one tool.
func (r *ToolReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var tool v1alpha1.McpTool
	if err := r.Get(ctx, req.NamespacedName, &tool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !tool.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	fault, err := r.check(ctx, &tool)
	if err != nil {
		unknown := metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonCheckFailed, Message: err.Error()}
		return ctrl.Result{}, errors.Join(err, r.writeStatus(ctx, &tool, unknown))
	}
	ready := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonToolReady, Message: "agents are offered the tool"}
	if fault != nil {
		ready = metav1.Condition{Status: metav1.ConditionFalse, Reason: fault.Reason, Message: fault.Error()}
	}
	if err := r.writeStatus(ctx, &tool, ready); err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	if fault != nil && fault.Reason == v1alpha1.ReasonJobRefused {
		age := r.Now().Sub(meta.FindStatusCondition(tool.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime.Time)
		result.RequeueAfter = min(max(age, recheckFirst), recheckLast)
	}
	return result, nil
}

// check looks for what is wrong with the tool: in itself, beside its neighbours, in the eyes of the API server.
func (r *ToolReconciler) check(ctx context.Context, tool *v1alpha1.McpTool) (*jobs.Fault, error) {
	if fault := jobs.Check(tool, r.Runtime); fault != nil {
		return fault, nil
	}
	if fault, err := r.checkName(ctx, tool); fault != nil || err != nil {
		return fault, err
	}
	return r.dryRun(ctx, tool)
}

// checkName says whether an older tool of the namespace has the same name on the wire.
func (r *ToolReconciler) checkName(ctx context.Context, tool *v1alpha1.McpTool) (*jobs.Fault, error) {
	var same v1alpha1.McpToolList
	if err := r.List(ctx, &same, client.InNamespace(tool.Namespace), client.MatchingFields{wireNameIndex: tool.WireName()}); err != nil {
		return nil, fmt.Errorf("listing the tools named %s: %w", tool.WireName(), err)
	}
	for i := range same.Items {
		if other := &same.Items[i]; other.UID != tool.UID && other.DeletionTimestamp.IsZero() && older(other, tool) {
			return &jobs.Fault{Reason: v1alpha1.ReasonNameConflict, Err: fmt.Errorf(
				"the McpTool %s is older and has the same tool name %q; set another spec.name", other.Name, tool.WireName())}, nil
		}
	}
	return nil, nil
}

// older puts tools in the order of their creation, and of their names where that is the same second.
func older(a, b *v1alpha1.McpTool) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

func (r *ToolReconciler) writeStatus(ctx context.Context, tool *v1alpha1.McpTool, ready metav1.Condition) error {
	ready.Type, ready.ObservedGeneration, ready.Message = v1alpha1.ConditionReady, tool.Generation, clip(ready.Message, 32768)
	before := tool.DeepCopy()
	meta.SetStatusCondition(&tool.Status.Conditions, ready)
	tool.Status.ToolName = tool.WireName()
	tool.Status.ObservedGeneration = tool.Generation
	if equality.Semantic.DeepEqual(before.Status, tool.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, tool, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of the McpTool %s/%s: %w", tool.Namespace, tool.Name, err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("checked tool", "ready", ready.Status, "reason", ready.Reason)
	return nil
}

// SetupWithManager starts the reconciler with the manager.
func (r *ToolReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.McpTool{}, wireNameIndex, func(o client.Object) []string {
		return []string{o.(*v1alpha1.McpTool).WireName()}
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("mcptool").
		Watches(&v1alpha1.McpTool{}, r.withNamesakes()).
		Complete(r)
}

// withNamesakes enqueues a tool that changed and those that have, or had, the same name on the wire.
func (r *ToolReconciler) withNamesakes() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, tools ...client.Object) {
		for _, o := range tools {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			var same v1alpha1.McpToolList
			if err := r.List(ctx, &same, client.InNamespace(o.GetNamespace()), client.MatchingFields{wireNameIndex: o.(*v1alpha1.McpTool).WireName()}); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "listing tools of one name", "tool", o.GetName())
				continue
			}
			for _, t := range same.Items {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: t.Name}})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !e.ObjectNew.GetDeletionTimestamp().IsZero() {
				enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}

// clip bounds a text for a field of limited length.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "…"
}
