// Package record holds what a chaos run saw: what clients were told, what the work did, what the cluster stored and what was
// broken. It is all that the verdict rests on. Everything is appended to one file as it happens, one JSON object a line.
package record

import "time"

// Eras of clients.
const (
	Modern = "2026-07-28"
	Legacy = "2025-11-25"
)

// Call is one try of a tools/call.
type Call struct {
	Client, Era string
	// ID is the same in all tries of one call.
	ID, Kind, Nonce string
	// Keyed calls carry an idempotency key, so that they may be tried again.
	Keyed          bool
	Replica        string
	Sent, Answered time.Time
	// Task is the handle; "" when none came.
	Task string
	// Refused is the JSON-RPC error, as JSON; Lost says why there was no answer at all.
	Refused, Lost string
}

// Question is one that a client was shown.
type Question struct{ Key, Message string }

// Read is one look at a task, however the client came by it.
type Read struct {
	Client, Era, Replica string
	// Via is the method: tasks/get, tasks/result, tasks/cancel, or a stream of notifications.
	Via, Task            string
	Sent, Answered       time.Time
	Status, Message      string
	CreatedAt, UpdatedAt string
	TTLMs                *int64
	Questions            []Question
	// Result is the hash of the result's text, which stands in a Body.
	Result string
	// Error is that of a failed task, as JSON.
	Error string
	// Unknown says that there is no such task (-32602).
	Unknown bool
	// Refused is any other JSON-RPC error, as JSON; Lost says why there was no answer.
	Refused, Lost string
}

// Told says whether the read brought the state of the task.
func (r *Read) Told() bool { return r.Status != "" }

// Answer is one try to answer a question.
type Answer struct {
	Client, Era, Replica, Task string
	Question
	Value          string
	Sent, Answered time.Time
	Acknowledged   bool
	Refused, Lost  string
	// Late answers were sent after another one had been acknowledged: they must change nothing.
	Late bool
}

// Cancel is one try to cancel a task.
type Cancel struct {
	Client, Era, Replica, Task string
	Sent, Answered             time.Time
	Acknowledged               bool
	Refused, Lost              string
}

// Body is the text of a result.
type Body struct {
	Hash, Text string
}

// Deed is something that the work did, said by itself, and acknowledged to it.
type Deed struct {
	At time.Time
	// Pod is the UID of the Pod; Run tells the processes of one Pod apart.
	Task, Pod, Run, Kind, Nonce string
	// Ordinal counts the deeds of a process.
	Ordinal int
	// What was done: start, effect …; Detail says more.
	What, Detail string
}

// Object is a change of an object in the cluster, as a watch or a list showed it.
type Object struct {
	At time.Time
	// Event is ADDED, MODIFIED, DELETED; or GONE for what a new list no longer has.
	Event, Kind, Name, UID string
	// Task that the object belongs to.
	Task string
	// Nonce of a task's arguments; Node of a Pod; Owner is the UID of a Pod's Job.
	Nonce, Node, Owner string
	// State, Reason and Message of a task's status; the phase of a Pod.
	State, Reason, Message string
	CreatedAt, ExpiresAt   time.Time
	Finalizers             []string
}

// Fault is one that was made.
type Fault struct {
	N    int
	Kind string
	// Node, Pod (its UID) and Task that it hit, as far as it hit one.
	Node, Pod, Task string
	Began, Ended    time.Time
	// Missed says why nothing was hit.
	Missed string
}
