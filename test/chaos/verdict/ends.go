package verdict

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
	"github.com/mcptask/mcptask/test/chaos/work"
)

// expectation of a kind of work.
type expectation struct {
	// attempts is how many Pods its Job may have: the first, its own retries, and one after each release.
	attempts int
	// end is how it ends when nothing disturbs it.
	end string
}

// How tasks end, in the words of the report.
const (
	ok        = "completed"
	toolError = "completed with isError"
	failed    = "failed"
	cancelled = "cancelled"
)

// Retries of each kind's Job, which tools.yaml is filled with.
var Retries = map[string]int{work.Retrying: 3, work.Asking: 2, work.Releasing: 2}

var expected = map[string]expectation{
	work.Short:     {1, ok},
	work.Long:      {1, ok},
	work.Large:     {1, ok},
	work.Asking:    {1 + Retries[work.Asking], ok},
	work.Releasing: {1 + Retries[work.Releasing] + work.Questions, ok},
	work.Retrying:  {1 + Retries[work.Retrying], ok},
	work.Failing:   {1, toolError},
	work.Cancelled: {1, cancelled},
}

// ended is how a task ended.
type ended struct {
	how    string
	reason string // of the stored object
	text   string // result or error
	at     time.Time
}

// end finds out how a task ended: the stored object says it, and the clients what the result was.
func (r *run) end(t *task) (e ended, found bool) {
	for _, o := range t.states {
		if terminal(o.State) {
			e, found = ended{how: o.State, reason: o.Reason, text: o.Message, at: o.At}, true
			break
		}
	}
	for _, read := range t.reads {
		if read.Era != record.Modern || !terminal(read.Status) || read.Via == "tools/call" {
			continue
		}
		if !found {
			e, found = ended{how: read.Status, at: read.Answered}, true
		}
		if e.text = r.outcome(read); e.text == "" {
			e.text = read.Message
		}
		if read.Status == "completed" && r.isError(read) {
			e.how = toolError
		}
		return e, found
	}
	for _, read := range t.reads { // the result may have been read by older clients alone
		if read.Via == "tasks/result" && read.Result != "" {
			e.text = r.outcome(read)
			if r.isError(read) {
				e.how = toolError
			}
		}
	}
	if e.how == "completed" && (e.reason == "ToolError" || e.reason == "OOMKilled") {
		e.how = toolError
	}
	return e, found
}

// ends: every task ends, as its kind does or as a fault explains; a result is never wrong.
func (r *run) ends(t *task) {
	if !t.handle && len(t.states) == 0 {
		return
	}
	e, found := r.end(t)
	if !found {
		last := "never seen"
		if n := len(t.states); n > 0 {
			last = fmt.Sprintf("%s/%s: %s", t.states[n-1].State, t.states[n-1].Reason, t.states[n-1].Message)
		}
		r.wrong("every task ends", t.name, "%s: %s", t.kind, last)
		return
	}
	if e.how == ok {
		r.resultIsRight(t, e)
	}
	if e.how == expected[t.kind].end && r.natural(t, e) {
		return
	}
	switch {
	case e.how == ok:
		r.wrong("tasks end as they should", t.name, "%s work is %s: %.300s", t.kind, e.how, e.text)
	case e.how == cancelled:
		if len(t.cancels) == 0 {
			r.wrong("tasks end as they should", t.name, "%s work was cancelled by nobody", t.kind)
		}
	case e.text == "":
		r.wrong("tasks end as they should", t.name, "%s work %s, and nothing says why", t.kind, e.how)
	case r.cause(t, e) == "":
		r.wrong("tasks end as they should", t.name, "%s work is %s (%s), and no fault explains it: %.300s", t.kind, e.how, e.reason, e.text)
	}
}

// natural says whether work that ended with an error ended with its own.
func (r *run) natural(t *task, e ended) bool {
	return t.kind != work.Failing || strings.Contains(e.text, "refused "+t.nonce)
}

// resultIsRight: a result is that of this very call, whole or said to be cut, and the work did come to its end.
func (r *run) resultIsRight(t *task, e ended) {
	if !slices.ContainsFunc(t.deeds, func(d record.Deed) bool { return d.What == work.Done }) {
		r.wrong("results are right", t.name, "%s work is completed and never came to its end", t.kind)
	}
	var result struct {
		StructuredContent *struct {
			Nonce, Text string
			Answers     []string
		}
		Content []struct{ Text string }
	}
	if e.text == "" || !strings.HasPrefix(e.text, "{") {
		return // no client has read it
	}
	if err := json.Unmarshal([]byte(e.text), &result); err != nil {
		r.wrong("results are right", t.name, "the result cannot be read: %v: %.300s", err, e.text)
		return
	}
	content := result.StructuredContent
	switch {
	case content == nil:
		if t.kind == work.Large && len(result.Content) > 0 && strings.Contains(result.Content[0].Text, "bytes") {
			return // it was too large, and that is said
		}
		if t.kind != work.Large && r.outputLost(t, e.text) {
			return
		}
		r.wrong("results are right", t.name, "%s work has no result: %.300s", t.kind, e.text)
	case content.Nonce != t.nonce:
		r.wrong("results are right", t.name, "the result of %q has the nonce %q", t.nonce, content.Nonce)
	case t.kind == work.Large && content.Text != work.LargeText(t.nonce):
		r.wrong("results are right", t.name, "the large result is another one: %d bytes", len(content.Text))
	case t.kind == work.Asking || t.kind == work.Releasing:
		for i, value := range content.Answers {
			words := work.Question(t.nonce, i+1)
			if !slices.ContainsFunc(t.answers, func(a record.Answer) bool { return a.Message == words && a.Value == value }) {
				r.wrong("no answer is lost", t.name, "the result says that %q was answered %q, which nobody sent", words, value)
			}
		}
	}
}

// outputLost says whether a fault took what the work put out before anybody could read it: its Pod was deleted without grace, and the result
// says that the output went with it; or its containerd was killed while the work ran, which writes the log of a node.
func (r *run) outputLost(t *task, text string) bool {
	for _, f := range r.Faults {
		switch {
		case f.Kind == "delete-work" && f.Task == t.name && strings.Contains(text, "The Pod is gone, and its output with it."):
			return true
		case f.Kind != "stop-node" && f.Kind != "kill-containerd":
			continue
		}
		for _, pod := range t.pods {
			ended := slices.IndexFunc(pod, func(o record.Object) bool { return o.State == "Succeeded" })
			if ended >= 0 && pod[ended].Node == f.Node && f.Began.Before(pod[ended].At) && f.Ended.After(pod[0].At) {
				return true
			}
		}
	}
	return false
}

const (
	// aftermath is how long after a fault its effect on a Pod may show: a node that was off reports what became of its Pods.
	aftermath = 2 * time.Minute
	// startDeadline is that of the tools. A Pod whose node went off between the making and the starting of its first container
	// is never started by the kubelet, and never said to have failed: only the deadline ends it.
	startDeadline = 5 * time.Minute
	// notCreated is what a kubelet leaves behind that is killed while it has a container created: its runtime gives that up, and the Pod has failed.
	notCreated = "failed to create containerd task: failed to create shim task: context canceled"
)

// cause finds a fault that may have ended the work.
func (r *run) cause(t *task, e ended) string {
	shows := aftermath
	if e.reason == "StartFailed" {
		shows += startDeadline
	}
	for _, f := range r.Faults {
		if f.Began.After(e.at) || f.Missed != "" && f.Pod == "" && f.Node == "" {
			continue
		}
		switch f.Kind {
		case "kill-work", "delete-work":
			if f.Task == t.name {
				return f.Kind
			}
		case "stop-node", "kill-containerd", "kill-kubelet":
			if f.Kind == "kill-kubelet" && !strings.Contains(e.text, notCreated) {
				continue
			}
			for _, pod := range t.pods {
				if pod[len(pod)-1].Node == f.Node && pod[0].At.Before(f.Ended.Add(time.Second)) && f.Ended.Add(shows).After(e.at) {
					return f.Kind
				}
			}
		}
	}
	return ""
}
