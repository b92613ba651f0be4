package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/controllers/decide"
)

const (
	// eventReadsPerSecond and eventReadsAtOnce pace the reading of Events when many tasks are stuck at one time, for instance
	// because of one quota: each read makes the API server look through the Events of a namespace.
	eventReadsPerSecond, eventReadsAtOnce = 5, 20
)

// glances are the Events that were last read of each task that is stuck before its start.
type glances struct {
	sync.Mutex
	of map[types.NamespacedName]glance
}

type glance struct {
	object types.UID
	at     time.Time
	events []eventsv1.Event
}

func (g *glances) get(task types.NamespacedName) glance {
	g.Lock()
	defer g.Unlock()
	return g.of[task]
}

func (g *glances) keep(task types.NamespacedName, seen glance) {
	g.Lock()
	defer g.Unlock()
	if g.of == nil {
		g.of = map[types.NamespacedName]glance{}
	}
	g.of[task] = seen
}

func (g *glances) forget(task types.NamespacedName) {
	g.Lock()
	defer g.Unlock()
	delete(g.of, task)
}

// lookFurther reads, live, what tells why a task does not get on. No watch keeps it: Events are many and most say nothing of tasks,
// and a node is of interest only while one doubts it, which its Pods show (decide.WhatElse).
func (r *TaskReconciler) lookFurther(ctx context.Context, in *decide.Input) error {
	key := client.ObjectKeyFromObject(in.Task)
	if in.JobGone {
		r.glances.forget(key)
		return r.lookAtNamespace(ctx, in)
	}
	look := decide.WhatElse(in)
	if look.EventsOf == "" {
		r.glances.forget(key)
	} else if err := r.lookAtEvents(ctx, in, look.EventsOf); err != nil {
		return err
	}
	if look.Node == "" {
		return nil
	}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: look.Node}, node)
	switch {
	case apierrors.IsNotFound(err):
		in.NodeGone = true
	case err != nil:
		return fmt.Errorf("reading the node %s of the task %s: %w", look.Node, key, err)
	default:
		in.Node = node
	}
	return nil
}

// lookAtEvents reads the warnings about one object, unless they were read lately, or too many were.
func (r *TaskReconciler) lookAtEvents(ctx context.Context, in *decide.Input, object types.UID) error {
	key := client.ObjectKeyFromObject(in.Task)
	seen := r.glances.get(key)
	known := seen.object == object
	if known {
		in.Events = seen.events
	}
	if known && decide.EventsHold(in, seen.at) {
		return nil
	}
	if !r.eventReads.Allow() {
		in.Unread = true
		return nil
	}
	var list eventsv1.EventList
	if err := r.Live.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{"regarding.uid": string(object), "type": corev1.EventTypeWarning}); err != nil {
		return fmt.Errorf("reading the Events about the task %s: %w", key, err)
	}
	in.Events = list.Items
	r.glances.keep(key, glance{object: object, at: in.Now, events: list.Items})
	return nil
}

func (r *TaskReconciler) lookAtNamespace(ctx context.Context, in *decide.Input) error {
	var namespace corev1.Namespace
	err := r.Live.Get(ctx, client.ObjectKey{Name: in.Task.Namespace}, &namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace of the task %s/%s: %w", in.Task.Namespace, in.Task.Name, err)
	}
	in.NamespaceEnding = err != nil || !namespace.DeletionTimestamp.IsZero()
	return nil
}
