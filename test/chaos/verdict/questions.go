package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// asksOnce: no question is asked twice, no answer is lost, and none is changed.
func (r *run) asksOnce(t *task) {
	keys := map[string]map[string]bool{} // by revision and words
	for _, read := range t.reads {
		for _, q := range read.Questions {
			about := read.Era + " " + q.Message
			if keys[about] == nil {
				keys[about] = map[string]bool{}
			}
			keys[about][q.Key] = true
		}
	}
	for about, all := range keys {
		if len(all) > 1 {
			r.wrong("no question twice", t.name, "%s has %d keys", about, len(all))
		}
	}
	acknowledged := map[string]record.Answer{} // the first, by words
	for _, a := range t.answers {
		if before, ok := acknowledged[a.Message]; a.Acknowledged && (!ok || a.Answered.Before(before.Answered)) {
			acknowledged[a.Message] = a
		}
		if a.Refused != "" && !strings.Contains(a.Refused, "-32603") && !r.endedBefore(t, a.Answered) {
			r.wrong("answers are taken", t.name, "%s by %s was refused: %s", a.Message, a.Client, a.Refused)
		}
	}
	r.stayAnswered(t, acknowledged)
	r.arrive(t, acknowledged)
}

func (r *run) endedBefore(t *task, at time.Time) bool {
	for _, o := range t.states {
		if terminal(o.State) && o.At.Before(at.Add(slack)) {
			return true
		}
	}
	for _, read := range t.reads {
		if (terminal(read.Status) || read.Unknown) && read.Answered.Before(at.Add(slack)) {
			return true
		}
	}
	return false
}

// stayAnswered: a question is not shown any more once an answer was acknowledged; not at all by the replica that did it.
func (r *run) stayAnswered(t *task, acknowledged map[string]record.Answer) {
	for _, read := range t.reads {
		for _, q := range read.Questions {
			a, ok := acknowledged[q.Message]
			switch {
			case !ok:
			case read.Via != "tasks/get": // since when it was true is not known
				if read.Answered.After(a.Answered) {
					r.late(t, read.Answered.Sub(a.Answered), read.Answered, "%q was answered and %s asked it on a stream", q.Message, read.Replica)
				}
			case !read.Sent.After(a.Answered):
			case read.Replica == a.Replica:
				r.wrong("no question twice", t.name, "%q was acknowledged by %s at %s and shown by it at %s", q.Message, read.Replica, clock(a.Answered), clock(read.Sent))
			default:
				r.late(t, read.Sent.Sub(a.Answered), read.Sent, "%q was answered and %s showed it", q.Message, read.Replica)
			}
		}
	}
}

// arrive: the answer that was acknowledged is the one that reached the work, if any did; and it did, unless the work ended
// otherwise.
func (r *run) arrive(t *task, acknowledged map[string]record.Answer) {
	sent := map[string]map[string]bool{} // values by words
	for _, a := range t.answers {
		if sent[a.Message] == nil {
			sent[a.Message] = map[string]bool{}
		}
		sent[a.Message][a.Value] = true
	}
	arrived := map[string]string{} // by words
	for _, d := range t.deeds {
		if d.What != "answer" {
			continue
		}
		number, value, _ := strings.Cut(d.Detail, "=")
		words := fmt.Sprintf("Question %s of %s?", number, t.nonce)
		if before, ok := arrived[words]; ok && before != value {
			r.wrong("answers do not change", t.name, "%q was answered %s and %s", words, before, value)
		}
		arrived[words] = value
		if !sent[words][value] {
			r.wrong("answers do not change", t.name, "the work got %q for %q, which nobody sent", value, words)
		}
		if a, ok := acknowledged[words]; ok && a.Value != value {
			r.wrong("no answer is lost", t.name, "%q: %s was acknowledged at %s, and the work got %s", words, a.Value, clock(a.Answered), value)
		}
	}
	for words := range acknowledged {
		if _, ok := arrived[words]; !ok && r.succeeded(t) {
			r.wrong("no answer is lost", t.name, "%q never reached the work", words)
		}
	}
}

// succeeded says whether the task ended well.
func (r *run) succeeded(t *task) bool {
	for _, read := range t.reads {
		if read.Era == record.Modern && read.Status == "completed" && !r.isError(read) {
			return true
		}
		if read.Era == record.Legacy && read.Status == "completed" {
			return true
		}
	}
	return false
}
