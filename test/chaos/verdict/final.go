package verdict

import (
	"encoding/json"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// isFinal: what has ended has ended, for all clients, on all replicas and at all times.
func (r *run) isFinal(t *task) {
	r.objectIsFinal(t)
	first := map[string]record.Read{} // the first terminal read in each revision and way
	var modern, legacy, payload *record.Read
	for _, read := range t.reads {
		if !terminal(read.Status) || read.Via == "tools/call" || read.Via == "tasks/cancel" {
			continue
		}
		way := read.Era
		if read.Via == "tasks/result" {
			way += " result"
		}
		before, ok := first[way]
		if !ok {
			first[way] = read
			switch {
			case read.Via == "tasks/result":
				payload = &read
			case read.Era == record.Modern:
				modern = &read
			default:
				legacy = &read
			}
			continue
		}
		if before.Status != read.Status || r.outcome(before) != r.outcome(read) || read.Via != "tasks/result" && before.UpdatedAt != read.UpdatedAt {
			r.wrong("terminal is final", t.name, "%s of %s: %s at %s (%s), %s at %s (%s)", way, t.kind,
				before.Status, clock(before.Answered), r.outcome(before), read.Status, clock(read.Answered), r.outcome(read))
		}
	}
	r.erasAgree(t, modern, legacy, payload)
	r.goesBack(t)
}

// objectIsFinal says the same of the stored object.
func (r *run) objectIsFinal(t *task) {
	var ended record.Object
	for _, o := range t.states {
		if ended.State != "" && (o.State != ended.State || o.Reason != ended.Reason) {
			r.wrong("terminal is final", t.name, "stored as %s/%s at %s and as %s/%s at %s",
				ended.State, ended.Reason, clock(ended.At), o.State, o.Reason, clock(o.At))
		}
		if terminal(o.State) {
			ended = o
		}
	}
}

// outcome is the result or the error of a read, without what differs from one revision to the other.
func (r *run) outcome(read record.Read) string {
	if read.Result == "" {
		return read.Error
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(r.Bodies[read.Result]), &fields); err != nil {
		return r.Bodies[read.Result]
	}
	delete(fields, "_meta")
	delete(fields, "resultType")
	text, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// erasAgree: a result with isError is a failure in the older revision, and there a cancelled task is cancelled whatever its
// work did; all else is the same.
func (r *run) erasAgree(t *task, modern, legacy, payload *record.Read) {
	if legacy != nil && payload != nil && legacy.Status != payload.Status {
		r.wrong("reads agree", t.name, "tasks/get says %s, tasks/result %s", legacy.Status, payload.Status)
	}
	if modern == nil || legacy == nil {
		return
	}
	want := modern.Status
	if want == "completed" && r.isError(*modern) {
		want = "failed"
	}
	if legacy.Status != want && !(legacy.Status == "cancelled" && len(t.cancels) > 0) {
		r.wrong("reads agree", t.name, "%s says %s, %s says %s", modern.Era, modern.Status, legacy.Era, legacy.Status)
	}
	if payload != nil && payload.Result != "" && r.outcome(*payload) != r.outcome(*modern) {
		r.wrong("reads agree", t.name, "the results differ: %.300s and %.300s", r.outcome(*payload), r.outcome(*modern))
	}
}

func (r *run) isError(read record.Read) bool {
	var result struct{ IsError bool }
	return json.Unmarshal([]byte(r.Bodies[read.Result]), &result) == nil && result.IsError
}

// How far a replica may be behind what another one, or the same one, has said already.
const (
	// behind is while the API server can be reached.
	behind = 5 * time.Second
	// behindCut is after a replica was cut from the API server: its connection must first be found dead.
	behindCut = 75 * time.Second
)

// goesBack: a task that has ended is not shown as working again. A replica may be behind the others for a while, but not
// behind itself.
func (r *run) goesBack(t *task) {
	for _, era := range []string{record.Modern, record.Legacy} {
		ended := map[string]time.Time{} // by replica
		var earliest time.Time
		for _, read := range t.reads {
			if read.Era != era || !terminal(read.Status) {
				continue
			}
			if at, ok := ended[read.Replica]; !ok || read.Answered.Before(at) {
				ended[read.Replica] = read.Answered
			}
			if earliest.IsZero() || read.Answered.Before(earliest) {
				earliest = read.Answered
			}
		}
		if earliest.IsZero() {
			continue
		}
		for _, read := range t.reads {
			if read.Era != era || !read.Told() || terminal(read.Status) || read.Via != "tasks/get" {
				continue
			}
			if at, ok := ended[read.Replica]; ok && read.Sent.After(at) {
				r.wrong("terminal is final", t.name, "%s showed it ended at %s, and %s at %s", read.Replica, clock(at), read.Status, clock(read.Sent))
			} else if read.Sent.After(earliest) {
				r.late(t, read.Sent.Sub(earliest), read.Sent, "it had ended and %s showed it %s", read.Replica, read.Status)
			}
		}
	}
}

// late counts a view that was behind, which is wrong when it was too far behind.
func (r *run) late(t *task, by time.Duration, at time.Time, format string, args ...any) {
	r.stale = append(r.stale, by)
	limit := behind
	if r.cutBefore(at) {
		limit = behindCut
	}
	if by > limit {
		r.wrong("replicas catch up", t.name, format+", %s later", append(args, by.Round(time.Millisecond))...)
	}
}

// cutBefore says whether the API server was away from somebody shortly before.
func (r *run) cutBefore(at time.Time) bool {
	for _, f := range r.Faults {
		switch f.Kind {
		case "cut-node", "isolate-node", "stop-node", "stop-control-plane", "kill-kube-apiserver", "kill-etcd":
			if f.Began.Before(at) && f.Ended.Add(behindCut).After(at) {
				return true
			}
		}
	}
	return false
}
