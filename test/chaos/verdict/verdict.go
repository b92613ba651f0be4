// Package verdict judges a chaos run by its record alone. It shares nothing with the product: what a task may do is written
// down here once more.
package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// Violation is a rule that did not hold.
type Violation struct{ Rule, Task, What string }

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: %s", v.Rule, cmp.Or(v.Task, "-"), v.What)
}

// task is all that is known of one task.
type task struct {
	name, kind, nonce string
	// handle says whether a client was given it.
	handle  bool
	reads   []record.Read
	answers []record.Answer
	cancels []record.Cancel
	deeds   []record.Deed
	// states of the stored object, and its Jobs and Pods by UID, each as a list of changes.
	states []record.Object
	jobs   map[string][]record.Object
	pods   map[string][]record.Object
}

// run is a record by its tasks.
type run struct {
	*record.Log
	tasks      map[string]*task
	violations []Violation
	stale      []time.Duration
}

// Judge finds what was wrong.
func Judge(log *record.Log) *Report {
	r := &run{Log: log, tasks: map[string]*task{}}
	r.sort()
	r.calls()
	for _, name := range r.names() {
		t := r.tasks[name]
		r.resolves(t)
		r.ends(t)
		r.runsOnce(t)
		r.isFinal(t)
		r.asksOnce(t)
	}
	r.leftovers()
	r.recovers()
	return r.report()
}

func (r *run) wrong(rule, task, format string, args ...any) {
	r.violations = append(r.violations, Violation{rule, task, fmt.Sprintf(format, args...)})
}

func (r *run) names() []string {
	var names []string
	for name := range r.tasks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *run) task(name string) *task {
	t, ok := r.tasks[name]
	if !ok {
		t = &task{name: name, jobs: map[string][]record.Object{}, pods: map[string][]record.Object{}}
		r.tasks[name] = t
	}
	return t
}

// sort gives each task what belongs to it.
func (r *run) sort() {
	kinds := map[string]string{} // by nonce
	for _, c := range r.Calls {
		kinds[c.Nonce] = c.Kind
		if c.Task != "" {
			t := r.task(c.Task)
			t.handle, t.kind, t.nonce = true, c.Kind, c.Nonce
		}
	}
	for _, o := range r.Objects {
		switch o.Kind {
		case "McpTask":
			t := r.task(o.Name)
			t.states = append(t.states, o)
			if t.kind == "" {
				t.kind, t.nonce = kinds[o.Nonce], o.Nonce
			}
		case "Job":
			t := r.task(o.Task)
			t.jobs[o.UID] = append(t.jobs[o.UID], o)
		case "Pod":
			t := r.task(o.Task)
			t.pods[o.UID] = append(t.pods[o.UID], o)
		}
	}
	for _, read := range r.Reads {
		t := r.task(read.Task)
		t.reads = append(t.reads, read)
	}
	for _, a := range r.Answers {
		t := r.task(a.Task)
		t.answers = append(t.answers, a)
	}
	for _, c := range r.Cancels {
		t := r.task(c.Task)
		t.cancels = append(t.cancels, c)
	}
	for _, d := range r.Deeds {
		t := r.task(d.Task)
		t.deeds = append(t.deeds, d)
	}
}

// terminal says whether a status is final.
func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// calls: the tries of one call lead to one task, and none is refused for good.
func (r *run) calls() {
	handles := map[string]map[string]bool{} // by call
	for _, c := range r.Calls {
		if c.Task != "" {
			if handles[c.ID] == nil {
				handles[c.ID] = map[string]bool{}
			}
			handles[c.ID][c.Task] = true
		}
		if c.Refused != "" && !strings.Contains(c.Refused, "-32603") {
			r.wrong("calls are taken", c.Task, "%s was refused: %s", c.ID, c.Refused)
		}
	}
	for id, tasks := range handles {
		if len(tasks) > 1 {
			r.wrong("one task a call", "", "%s was given %d handles", id, len(tasks))
		}
	}
	stored := map[string]map[string]bool{} // names by nonce
	for _, o := range r.Objects {
		if o.Kind == "McpTask" {
			if stored[o.Nonce] == nil {
				stored[o.Nonce] = map[string]bool{}
			}
			stored[o.Nonce][o.Name] = true
		}
	}
	for nonce, names := range stored {
		if len(names) > 1 {
			r.wrong("one task a call", "", "the call with the nonce %s made %d tasks", nonce, len(names))
		}
	}
}

// slack is how far clocks of whole seconds may be off.
const slack = 1500 * time.Millisecond

// resolves: a handle that was given resolves until its ttlMs.
func (r *run) resolves(t *task) {
	if !t.handle {
		return
	}
	if len(t.states) == 0 {
		r.wrong("no handle to nothing", t.name, "the cluster never had this task")
	}
	var until time.Time
	for _, o := range t.states {
		if o.ExpiresAt.After(until) {
			until = o.ExpiresAt
		}
	}
	for _, read := range t.reads {
		if !terminal(read.Status) || read.TTLMs == nil {
			continue
		}
		created, err := time.Parse(time.RFC3339Nano, read.CreatedAt)
		if err != nil {
			continue // tasks/result does not say
		}
		if told := created.Add(time.Duration(*read.TTLMs) * time.Millisecond); told.After(until) {
			until = told
		}
	}
	for _, read := range t.reads {
		switch {
		case read.Refused != "" && !strings.Contains(read.Refused, "-32603") && !strings.Contains(read.Refused, `"code":503`):
			r.wrong("handles resolve", t.name, "%s by %s was refused: %s", read.Via, read.Client, read.Refused)
		case !read.Unknown:
		case until.IsZero():
			r.wrong("handles resolve", t.name, "%s by %s: unknown at %s, and it was never to end", read.Via, read.Client, clock(read.Answered))
		case read.Answered.Before(until.Add(-slack)):
			r.wrong("handles resolve", t.name, "%s by %s: unknown at %s, %s too early", read.Via, read.Client, clock(read.Answered), until.Sub(read.Answered))
		}
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// runsOnce: one Job a task, and no attempts but the Job's own.
func (r *run) runsOnce(t *task) {
	if len(t.jobs) > 1 {
		r.wrong("one Job a task", t.name, "it had %d", len(t.jobs))
	}
	attempts := map[string]string{} // the process of each Pod
	effects := map[string]int{}
	for _, d := range t.deeds {
		if run, ok := attempts[d.Pod]; ok && run != d.Run {
			r.wrong("a Pod runs the work once", t.name, "Pod %s ran it again", d.Pod)
		}
		attempts[d.Pod] = d.Run
		if d.What == "effect" {
			effects[d.Detail]++
		}
		if pod, ok := t.pods[d.Pod]; ok {
			if _, own := t.jobs[pod[0].Owner]; !own {
				r.wrong("one Job a task", t.name, "Pod %s belongs to another Job, %s", d.Pod, pod[0].Owner)
			}
		}
	}
	allowed := expected[t.kind].attempts
	if len(attempts) > allowed || len(t.pods) > allowed {
		r.wrong("no runs beyond the Job's own", t.name, "%s: %d Pods, %d of them did something; %d are allowed", t.kind, len(t.pods), len(attempts), allowed)
	}
	for what, times := range effects {
		if times > allowed {
			r.wrong("no side effect beyond the Job's own retries", t.name, "%q happened %d times", what, times)
		}
	}
}

// leftovers: in the end nothing is there any more.
func (r *run) leftovers() {
	last := map[string]record.Object{}
	for _, o := range r.Objects {
		last[o.Kind+o.UID] = o
	}
	for _, o := range last {
		if o.Event != "DELETED" && o.Event != "GONE" {
			r.wrong("nothing is left over", o.Task, "%s %s (%s %s; finalizers %v)", o.Kind, o.Name, o.State, o.Reason, o.Finalizers)
		}
	}
}

// Healed is the kind of the entry that says when all faults were mended.
const Healed = "healed"

// recovery is how long requests may fail after everything was mended: caches are filled anew, dead connections are noticed.
const recovery = 30 * time.Second

// recovers: once everything is mended, everything is answered.
func (r *run) recovers() {
	healed := slices.IndexFunc(r.Faults, func(f record.Fault) bool { return f.Kind == Healed })
	if healed < 0 {
		r.wrong("it recovers", "", "the system did not become healthy")
		return
	}
	since := r.Faults[healed].Ended.Add(recovery)
	for _, read := range r.Reads {
		if read.Sent.After(since) && read.Via == "tasks/get" && (read.Lost != "" || read.Refused != "") {
			r.wrong("it recovers", read.Task, "%s by %s at %s: %s%s", read.Via, read.Client, clock(read.Sent), read.Lost, read.Refused)
		}
	}
}
