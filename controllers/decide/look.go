package decide

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// patience is how long a start may take before its Events are looked at: most Pods run by then.
	patience = 5 * time.Second
	// lookAgain is how long Events that were looked at hold.
	lookAgain = 30 * time.Second
)

// Look is what else has to be read, live, to say why a task does not get on: what no watch of ours keeps, because a task that does get on
// has no need of it.
type Look struct {
	// EventsOf is the object whose warnings say it: the Job that has no Pod, the Pod that has neither volumes nor network. "" is none.
	EventsOf types.UID
	// Node is the node whose state says it. "" is none.
	Node string
}

// WhatElse says what else has to be read. It is nothing for a task that waits in a queue, has just begun to start, runs, or says in
// its status why it does not.
func WhatElse(in *Input) Look {
	if in.Job == nil || Ended(in.Job) || suspended(in) != nil {
		return Look{}
	}
	if pod := doubtful(in); pod != nil {
		return Look{Node: pod.Spec.NodeName}
	}
	if in.Now.Sub(startBase(in)) < patience {
		return Look{}
	}
	pod := in.Newest()
	switch {
	case pod == nil, podEnded(pod):
		if toStart(in) {
			return Look{EventsOf: in.Job.UID}
		}
	case toStart(in) && slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return notUp(pod, s) }):
		return Look{EventsOf: pod.UID, Node: pod.Spec.NodeName}
	case pod.Spec.NodeName != "" && !readyForContainers(pod) && StartedAt(in.Job, []corev1.Pod{*pod}) == nil:
		return Look{EventsOf: pod.UID, Node: pod.Spec.NodeName}
	}
	return Look{}
}

// Overdue says whether the work should have started by now: the last moment to learn why it has not.
func Overdue(in *Input) bool { return startLeft(in) <= 0 }

// EventsHold says whether Events that were read at that time still do.
func EventsHold(in *Input, read time.Time) bool {
	return in.Now.Sub(read) < lookAgain && (!Overdue(in) || !read.Before(startBase(in).Add(startDeadline(in))))
}

// lookIn is when to look at a task that is starting: at its deadline, and before when its Events are due.
func lookIn(in *Input) time.Duration {
	left := max(startLeft(in), time.Second)
	switch age := in.Now.Sub(startBase(in)); {
	case age < patience:
		return min(left, max(patience-age, time.Second))
	case WhatElse(in).EventsOf != "":
		return min(left, lookAgain)
	}
	return left
}

// jobWarning is the last warning about the Job since it made its newest Pod; "" where there is none.
func (in *Input) jobWarning() string {
	var since time.Time
	if pod := in.Newest(); pod != nil {
		since = pod.CreationTimestamp.Time
	}
	return in.lastWarning(in.Job.UID, func(e *eventsv1.Event, at time.Time) bool { return at.After(since) })
}

// warning is the last warning about the object; "" where there is none.
func (in *Input) warning(of types.UID) string {
	return in.lastWarning(of, func(*eventsv1.Event, time.Time) bool { return true })
}

func (in *Input) lastWarning(of types.UID, counts func(e *eventsv1.Event, at time.Time) bool) string {
	var last *time.Time
	words := ""
	for i := range in.Events {
		e := &in.Events[i]
		if e.Regarding.UID != of || e.Type != corev1.EventTypeWarning {
			continue
		}
		at := e.EventTime.Time
		switch {
		case e.Series != nil:
			at = e.Series.LastObservedTime.Time
		case !e.DeprecatedLastTimestamp.IsZero():
			at = e.DeprecatedLastTimestamp.Time
		}
		if !counts(e, at) {
			continue
		}
		// This one sums up for all volumes that it waits, and another says for one volume why.
		general := strings.HasPrefix(e.Note, "Unable to attach or mount volumes")
		if last == nil || !at.Before(*last) && !general || strings.HasPrefix(words, "Unable to attach or mount volumes") {
			last, words = &at, e.Note
		}
	}
	return words
}
