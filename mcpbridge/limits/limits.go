// Package limits says how much one caller, one tool and one namespace may use, so that there is enough for the others.
// Nothing in it does I/O; only Buckets know the time.
package limits

import (
	"errors"
	"fmt"
)

// Limits are the bounds that hold for every namespace and every caller. A caller is counted in each namespace for itself.
type Limits struct {
	// StoredTasksPerNamespace bounds the tasks that a namespace holds, whoever made them, ended ones included.
	StoredTasksPerNamespace int64
	// StoredTasksPerCaller bounds the tasks of one caller, ended ones included.
	StoredTasksPerCaller int64
	// RunningTasksPerCaller bounds the tasks of one caller that have not ended.
	RunningTasksPerCaller int64
	// CallsPerMinute is how many calls of one caller may ask for a new task, at one replica.
	CallsPerMinute int64
	// PollsPerSecond is how often one caller may ask for the state of tasks, at one replica, for longer than PollBurst polls.
	PollsPerSecond int64
}

// pollBurst is how many seconds' worth of polls may come at once: a client that looks after hundreds of tasks asks for all of them
// in one go.
const pollBurst = 10

// PollBurst is how many polls may come at once.
func (l Limits) PollBurst() int64 { return pollBurst * l.PollsPerSecond }

// Default are bounds that no honest use of a cluster of ordinary size comes near.
func Default() Limits {
	return Limits{
		StoredTasksPerNamespace: 20000,
		StoredTasksPerCaller:    10000,
		RunningTasksPerCaller:   2000,
		CallsPerMinute:          1200,
		PollsPerSecond:          50,
	}
}

// Validate says which bounds cannot be, by the names of the bridge's flags.
func (l Limits) Validate() error {
	var faults []error
	for _, bound := range []struct {
		flag  string
		value int64
	}{
		{"--max-stored-tasks-per-namespace", l.StoredTasksPerNamespace},
		{"--max-stored-tasks-per-caller", l.StoredTasksPerCaller},
		{"--max-running-tasks-per-caller", l.RunningTasksPerCaller},
		{"--max-calls-per-minute", l.CallsPerMinute},
		{"--max-polls-per-second", l.PollsPerSecond},
	} {
		if bound.value <= 0 || bound.value > most {
			faults = append(faults, fmt.Errorf("%s must be from 1 to %d", bound.flag, most))
		}
	}
	if l.StoredTasksPerCaller > l.StoredTasksPerNamespace {
		faults = append(faults, errors.New("--max-stored-tasks-per-caller must not exceed --max-stored-tasks-per-namespace"))
	}
	if l.RunningTasksPerCaller > l.StoredTasksPerCaller {
		faults = append(faults, errors.New("--max-running-tasks-per-caller must not exceed --max-stored-tasks-per-caller"))
	}
	return errors.Join(faults...)
}

// most is the largest bound that makes sense.
const most = 100_000_000
