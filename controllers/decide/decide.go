// Package decide says what state a task is in. It is the only place that does. It is pure: no
// client, no clock, no effect; what it is told is all it knows.
package decide

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Input is all that a decision rests on.
type Input struct {
	Task *v1alpha1.McpTask
	// Job of the task, nil where there is none.
	Job *batchv1.Job
	// JobGone says that a live read found no Job although the task had one.
	JobGone bool
	// Pods of the Job, oldest first.
	Pods []corev1.Pod
	// Ending is the Pod that was given back while a person thinks, or that goes because the Job was suspended, as long as it is there. It
	// is none of Pods (Apart).
	Ending *corev1.Pod
	// Events of what WhatElse names; Unread says that they were to be read and could not be yet.
	Events []eventsv1.Event
	Unread bool
	// Node is the node that WhatElse names, NodeGone says that there is none of that name.
	Node     *corev1.Node
	NodeGone bool
	// NamespaceEnding says, where the Job is gone, that its namespace is being deleted.
	NamespaceEnding bool
	// Waiting is since when the work has been seen to wait for a Pod that is not there (Awaits); zero where it does not.
	Waiting time.Time
	// Undelivered is what the deciding Pod of an ended Job reported and could not hand over: it counts before what is stored.
	Undelivered *v1alpha1.RuntimeReport
	// Immediate says that a cancelled task is cancelled at once, whatever its Job still does.
	Immediate bool
	Now       time.Time
}

// Verdict is a decision.
type Verdict struct {
	State   v1alpha1.TaskState
	Reason  string
	Message string
	// Error of a failed task.
	Error *v1alpha1.TaskError
	// Output names the container whose output is the result of a completed task, or what is left of the work of another.
	Output *Output
	// Stop says that the Job must be brought to its end.
	Stop bool
	// EndPod is a Pod that must be brought to its end while its Job goes on; nil is none.
	EndPod *corev1.Pod
	// Release says that the Job's Pod is to be given back, or that the Job is to go on, and what is to be written on the Job with that.
	Release *Release
	// Recheck is how long the verdict holds when nothing changes; 0 is for ever.
	Recheck time.Duration
}

// Output is a container that has ended and what is known of its end.
type Output struct {
	// Pod is nil when the Pod is gone.
	Pod       *corev1.Pod
	Container string
	ExitCode  int32
	// Succeeded is false for an error of the tool.
	Succeeded bool
	// Cause says why a failed tool failed, where that is more than its exit code.
	Cause string
	// Reported is the result that the work handed over, nil where it did not.
	Reported *v1alpha1.TaskResult
}

// policy decides one kind of case; nil leaves it to the next.
type policy func(*Input) *Verdict

// policies in their order: what has ended before what is asked for, before what is still to come.
var policies = []policy{
	jobDeleted,
	jobForeign,
	jobEnded,
	releasedTooLate,
	suspendedTooLate,
	nodeLost,
	workDone,
	Expired,
	cancelled,
	released,
	comingBack,
	asking,
	startOverdue,
	suspended,
	running,
	starting,
}

// Decide says what state the task is in. The task has a Job, or had one.
func Decide(in *Input) Verdict {
	v := decide(in)
	lastWords(in, &v)
	if v.State.Terminal() {
		return v
	}
	for _, due := range []func(*Input) (time.Duration, bool){leavesIn, lifeLeft} {
		if left, ok := due(in); ok && (v.Recheck == 0 || left < v.Recheck) {
			v.Recheck = left
		}
	}
	return v
}

func decide(in *Input) Verdict {
	for _, p := range policies {
		if v := p(in); v != nil {
			return *v
		}
	}
	return Verdict{State: v1alpha1.TaskWorking, Reason: v1alpha1.ReasonScheduling, Message: "waiting for the Job's Pod"}
}

// JSON-RPC error codes (JSON-RPC 2.0, section 5.1).
const (
	CodeInvalidParams = -32602
	CodeInternalError = -32603
)

// Failed is the verdict on a task that the cluster could not run.
func Failed(code int32, reason, message string) *Verdict {
	return &Verdict{
		State: v1alpha1.TaskFailed, Reason: reason, Message: message,
		Error: &v1alpha1.TaskError{Code: code, Message: message},
	}
}

func failed(reason, message string) *Verdict { return Failed(CodeInternalError, reason, message) }

func working(reason, message string) *Verdict {
	return &Verdict{State: v1alpha1.TaskWorking, Reason: reason, Message: message}
}
