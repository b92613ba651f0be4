package verdict

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is a judgement, with the figures of the run.
type Report struct {
	Violations []Violation
	// Tasks by kind and by how they ended, with the reason where that is not how the kind ends.
	Tasks map[string]map[string]int
	// Faults by kind, and how many of them hit nothing.
	Faults map[string]int
	Missed int
	// Requests of all clients, and those that were not answered or refused; Retries of calls and answers.
	Requests, Unanswered, Retries int
	// Stale views are those that were behind what another replica had said, and the longest of them.
	Stale        int
	Stalest      time.Duration
	Deeds        int
	Pods         int
	Jobs         int
	Acknowledged struct{ Handles, Answers, Cancels int }
}

func (r *run) report() *Report {
	report := &Report{Violations: r.violations, Tasks: map[string]map[string]int{}, Faults: map[string]int{}, Deeds: len(r.Deeds), Stale: len(r.stale)}
	for _, t := range r.tasks {
		report.Pods += len(t.pods)
		report.Jobs += len(t.jobs)
		if !t.handle && len(t.states) == 0 {
			continue
		}
		if t.handle {
			report.Acknowledged.Handles++
		}
		how := "not ended"
		if e, found := r.end(t); found {
			if how = e.how; how != expected[t.kind].end {
				how += fmt.Sprintf(" (%s, after %s)", e.reason, r.cause(t, e))
			}
		}
		if report.Tasks[t.kind] == nil {
			report.Tasks[t.kind] = map[string]int{}
		}
		report.Tasks[t.kind][how]++
	}
	for _, f := range r.Faults {
		if f.Kind == Healed {
			continue
		}
		report.Faults[f.Kind]++
		if f.Missed != "" {
			report.Missed++
		}
	}
	if len(r.stale) > 0 {
		report.Stalest = slices.Max(r.stale)
	}
	r.count(report)
	return report
}

func (r *run) count(report *Report) {
	tries := map[string]int{}
	request := func(lost, refused string) {
		report.Requests++
		if lost != "" || refused != "" {
			report.Unanswered++
		}
	}
	for _, c := range r.Calls {
		request(c.Lost, c.Refused)
		tries[c.ID]++
	}
	for _, a := range r.Answers {
		request(a.Lost, a.Refused)
		tries[a.Task+a.Key+a.Value]++
		if a.Acknowledged && !a.Late {
			report.Acknowledged.Answers++
		}
	}
	for _, c := range r.Cancels {
		request(c.Lost, c.Refused)
		tries[c.Task]++
		if c.Acknowledged {
			report.Acknowledged.Cancels++
		}
	}
	for _, read := range r.Reads {
		if strings.HasPrefix(read.Via, "tasks/") {
			request(read.Lost, read.Refused)
		}
	}
	for _, n := range tries {
		report.Retries += n - 1
	}
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	total := 0
	for _, kind := range sorted(r.Tasks) {
		for _, how := range sorted(r.Tasks[kind]) {
			fmt.Fprintf(table, "%s\t%d\t%s\n", kind, r.Tasks[kind][how], how)
			total += r.Tasks[kind][how]
		}
	}
	_ = table.Flush() // as the rest
	fmt.Fprintf(out, "%d tasks, %d of them acknowledged; %d Jobs, %d Pods, %d deeds of the work\n", total, r.Acknowledged.Handles, r.Jobs, r.Pods, r.Deeds)
	fmt.Fprintf(out, "%d requests, %d of them unanswered or refused, %d retries; %d answers and %d cancellations acknowledged\n",
		r.Requests, r.Unanswered, r.Retries, r.Acknowledged.Answers, r.Acknowledged.Cancels)
	fmt.Fprintf(out, "%d views were behind another replica's, at most by %s\n", r.Stale, r.Stalest.Round(time.Millisecond))
	var faults []string
	all := 0
	for _, kind := range sorted(r.Faults) {
		faults = append(faults, fmt.Sprintf("%s %d", kind, r.Faults[kind]))
		all += r.Faults[kind]
	}
	fmt.Fprintf(out, "%d faults, %d of them hit nothing: %s\n", all, r.Missed, strings.Join(faults, ", "))
	if len(r.Violations) == 0 {
		fmt.Fprintln(out, "No violation.")
		return
	}
	fmt.Fprintf(out, "%d VIOLATIONS\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintln(out, " ", v)
	}
}

func sorted[T any](m map[string]T) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
