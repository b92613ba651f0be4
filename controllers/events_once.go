package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

const (
	// untold is how long before and after its start a controller looks for Events that the one before it may not have come to tell.
	untold = 2 * time.Minute
	// eventTimeout bounds the writing of an Event: nobody waits for it.
	eventTimeout = 5 * time.Second
	// toldAtMost is how many of the Events that were told are remembered, so that they are not sent again.
	toldAtMost = 4096
)

// EventsOnce tells each Event of an object once, whichever controller comes to tell it: the name of the Event is made of what it
// tells. An Event that says the same in other words is the same one if its reason and action are.
type EventsOnce struct {
	Client client.Client
	// Controller is who tells, Instance which of its replicas.
	Controller, Instance string
	told                 *lru.Cache
}

// NewEventsOnce is an EventsOnce that writes with the client.
func NewEventsOnce(c client.Client, controller, instance string) *EventsOnce {
	return &EventsOnce{Client: c, Controller: controller, Instance: instance, told: lru.New(toldAtMost)}
}

// Eventf implements events.EventRecorder.
func (e *EventsOnce) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	log := ctrl.Log.WithName("events")
	about, err := reference.GetReference(e.Client.Scheme(), regarding)
	if err != nil {
		log.Error(err, "an Event is not told", "reason", reason)
		return
	}
	hash := sha256.Sum256([]byte(strings.Join([]string{string(about.UID), reason, action}, "\x00")))
	name := about.Name + "." + hex.EncodeToString(hash[:8])
	key := about.Namespace + "/" + name
	if _, ok := e.told.Get(key); ok {
		return
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name, Namespace: about.Namespace},
		EventTime:           metav1.NowMicro(),
		ReportingController: e.Controller, ReportingInstance: e.Instance,
		Type: kind, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...), Regarding: *about,
	}
	if related != nil {
		if event.Related, err = reference.GetReference(e.Client.Scheme(), related); err != nil {
			log.Error(err, "an Event does not say what else it is about", "reason", reason)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	switch err := e.Client.Create(ctx, event); {
	case err == nil, apierrors.IsAlreadyExists(err):
		e.told.Add(key, nil)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Nobody will read it.
	default:
		log.Error(err, "an Event is not told", "object", about.Namespace+"/"+about.Name, "reason", reason)
	}
}

// retell tells all Events of a task that was last written about when this controller began: the one before it may have ended
// between a write and its Event.
func (r *TaskReconciler) retell(task *v1alpha1.McpTask, job *batchv1.Job) {
	if last := task.Status.LastUpdatedAt; last != nil && last.Sub(r.began).Abs() < untold {
		r.tell(&v1alpha1.McpTask{}, task, job)
	}
}
