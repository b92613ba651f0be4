package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
	"github.com/mcptask/mcptask/controllers/lastwords"
)

// The tasks are its work; it writes their status and, through the owner reference of their Jobs, blocks their deletion.
// A task is deleted when it has expired.
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks/status,verbs=patch
// +kubebuilder:rbac:groups=mcptask.dev,resources=mcptasks/finalizers,verbs=update
// Their Jobs are made, watched, brought to an end and removed.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete
// The Pods say how far the work is; a cancelled one is given a deadline; its log holds the result.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get
// Events tell people what happened; those about a Job or a Pod that does not start, a node that is silent and a namespace that goes
// tell why.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;list
// +kubebuilder:rbac:groups="",resources=nodes;namespaces,verbs=get

// TaskReconciler runs the Job of each McpTask and writes what became of it.
type TaskReconciler struct {
	client.Client
	// Live reads from the API server, past the cache.
	Live client.Reader
	// Kubernetes reads the logs of Pods.
	Kubernetes kubernetes.Interface
	Events     events.EventRecorder
	// LastWords remembers what is being deleted.
	LastWords *lastwords.Keeper
	// Runtime is how the work reaches its task.
	Runtime jobs.Runtime
	Now     func() time.Time

	begin sync.Once
	began time.Time
	// deletions and jobDeletions pace the clearing away of tasks and of their Jobs.
	deletions, jobDeletions *rate.Limiter
	written                 written

	past       past
	glances    glances
	waits      waits
	eventReads *rate.Limiter
	logs       readings
	// large is room for outputs that take much memory.
	large *semaphore.Weighted
}

// Reconcile brings one task one step further. That somebody else has written meanwhile is routine: it is looked at again.
func (r *TaskReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("decided from an old version; deciding again", "conflict", err.Error())
		return ctrl.Result{RequeueAfter: awaitCache}, nil
	}
	if errors.Is(err, errLogsBusy) {
		return ctrl.Result{RequeueAfter: awaitReading}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// reconcile brings one task one step further: it makes its Job, or decides its state from what the Job has
// come to and writes that.
func (r *TaskReconciler) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var task v1alpha1.McpTask
	if err := r.Get(ctx, req.NamespacedName, &task); err != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !task.DeletionTimestamp.IsZero() {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil // its Job goes with it
	}
	r.begin.Do(func() { r.began = r.Now() })
	seen, err := r.observe(ctx, &task, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.retell(&task, seen.Job)
	if task.Status.State.Terminal() {
		r.forget(req.NamespacedName)
		r.LastWords.Forget(req.NamespacedName)
		if err := r.stop(ctx, &task, seen); err != nil {
			return ctrl.Result{}, err
		}
		return r.clearAway(ctx, &task, seen)
	}
	if seen.Job == nil && !seen.JobGone {
		return r.start(ctx, &task)
	}
	if seen.Job != nil && metav1.IsControlledBy(seen.Job, &task) {
		if err := r.label(ctx, seen.Job, &task); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.listen(ctx, &task, seen)
	verdict := decide.Decide(seen)
	if verdict.Stop && verdict.State.Terminal() {
		// What is to be ended may have ended by itself, and the cache be behind: what finished first stands.
		if seen, err = r.observe(ctx, &task, true); err != nil {
			return ctrl.Result{}, err
		}
		seen.JobGone = seen.Job == nil
		verdict = decide.Decide(seen)
	}
	var unstopped error
	if verdict.Stop && verdict.State == v1alpha1.TaskWorking {
		if unstopped = r.stop(ctx, &task, seen); unstopped != nil {
			words, ok := admissionWords(unstopped)
			if !ok {
				return ctrl.Result{}, unstopped
			}
			verdict.Message = "the tool is to end, and the API server does not take that yet: " + words
		}
	}
	if verdict.EndPod != nil {
		if err := r.endPod(ctx, verdict.EndPod, restDeadline); err != nil {
			return ctrl.Result{}, err
		}
	}
	if verdict.Release != nil {
		if err := r.waitWithoutPod(ctx, &task, seen.Job, verdict.Release); err != nil {
			return ctrl.Result{}, err
		}
	}
	result, err := r.conclude(ctx, &task, seen, &verdict)
	return result, errors.Join(err, unstopped)
}

// forget drops what is remembered of a task that needs no more of it.
func (r *TaskReconciler) forget(task types.NamespacedName) {
	r.glances.forget(task)
	r.waits.forget(task)
}

// observe gathers what a decision rests on, from the cache where that is enough, or live.
func (r *TaskReconciler) observe(ctx context.Context, task *v1alpha1.McpTask, live bool) (*decide.Input, error) {
	in := &decide.Input{Task: task, Now: r.Now()}
	var err error
	if in.Job, in.JobGone, err = r.job(ctx, task, live); err != nil {
		return nil, err
	}
	if in.Pods, in.Ending, err = r.pods(ctx, task, in.Job, live, in.Now); err != nil {
		return nil, err
	}
	if !live && !task.Status.State.Terminal() && decide.PerhapsApart(in.Job, in.Pods) {
		return r.observe(ctx, task, true)
	}
	if !task.Status.State.Terminal() {
		in.Waiting = r.waits.see(client.ObjectKeyFromObject(task), in)
		if in.Undelivered, err = r.undelivered(ctx, in); err != nil {
			return nil, err
		}
		if err := r.lookFurther(ctx, in); err != nil {
			return nil, err
		}
	}
	if task.Spec.Cancel != nil {
		var tool v1alpha1.McpTool
		switch err := r.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.ToolName}, &tool); {
		case err == nil:
			in.Immediate = tool.Spec.Execution.CancelMode == v1alpha1.CancelModeImmediate
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading the tool of the task %s: %w", task.Name, err)
		}
	}
	return in, nil
}

// taskIndex finds Pods by the task they belong to.
const taskIndex = "task"

// SetupWithManager starts the reconciler with the manager.
func (r *TaskReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	r.deletions, r.jobDeletions = rate.NewLimiter(deletionsPerSecond, deletionsAtOnce), rate.NewLimiter(deletionsPerSecond, deletionsAtOnce)
	r.eventReads = rate.NewLimiter(eventReadsPerSecond, eventReadsAtOnce)
	r.large = semaphore.NewWeighted(largeOutputs)
	byTask := func(o client.Object) []string { return []string{o.GetLabels()[v1alpha1.LabelTask]} }
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, taskIndex, byTask); err != nil {
		return err
	}
	ofItsName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.McpTask{}).
		Watches(&batchv1.Job{}, ofItsName).
		Watches(&corev1.Pod{}, r.podEvents()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).
		Complete(r)
}
