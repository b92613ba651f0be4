package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// eventPodMade is the reason of the Event by which the Job controller tells of a Pod that it made for a Job (k8s.io/kubernetes,
// pkg/controller, SuccessfulCreatePodReason).
const eventPodMade = "SuccessfulCreate"

// past is which Jobs had Pods before this controller began, as far as Events tell, and when they were last told of one, by namespace.
type past struct {
	sync.Mutex
	of map[string]map[string]time.Time
}

// ranBefore says whether a task of which no Job is known has had one with a Pod: a controller made it and ended before it could say so,
// and somebody has deleted the Job since. Events outlive what they are about. They are asked for tasks older than this controller
// alone, and read once for a namespace.
func (r *TaskReconciler) ranBefore(ctx context.Context, task *v1alpha1.McpTask) (bool, error) {
	if task.CreationTimestamp.After(r.began) {
		return false, nil
	}
	r.past.Lock()
	defer r.past.Unlock()
	jobs, read := r.past.of[task.Namespace]
	if !read {
		jobs = map[string]time.Time{}
		list := &eventsv1.EventList{}
		for {
			err := r.Live.List(ctx, list, client.InNamespace(task.Namespace), client.MatchingFields{"regarding.kind": "Job", "reason": eventPodMade}, client.Limit(500), client.Continue(list.Continue))
			if err != nil {
				return false, fmt.Errorf("reading the Events about Jobs in the namespace %s: %w", task.Namespace, err)
			}
			for i := range list.Items {
				event := &list.Items[i]
				if told := event.CreationTimestamp.Time; told.After(jobs[event.Regarding.Name]) {
					jobs[event.Regarding.Name] = told
				}
			}
			if list.Continue == "" {
				break
			}
		}
		if r.past.of == nil {
			r.past.of = map[string]map[string]time.Time{}
		}
		r.past.of[task.Namespace] = jobs
	}
	// An Event before the task's making is about another Job of that name, of a task that is gone.
	told, ran := jobs[task.Name]
	return ran && !told.Before(task.CreationTimestamp.Time), nil
}
