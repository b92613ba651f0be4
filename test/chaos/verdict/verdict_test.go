package verdict

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
	"github.com/mcptask/mcptask/test/chaos/work"
)

var start = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// story is the record of one task, of a run in which all went well; each test spoils it.
type story struct{ *record.Log }

const (
	name  = "taskabcdefghijklmnopqrstuv"
	one   = "http://10.0.0.1:8080"
	two   = "http://10.0.0.2:8080"
	agent = "agent/new"
)

func (s story) read(seconds float64, replica, status, result string) *record.Read {
	read := record.Read{Client: agent, Era: record.Modern, Replica: replica, Via: "tasks/get", Task: name, Sent: at(seconds), Answered: at(seconds + 0.1),
		Status: status, CreatedAt: at(0).Format(time.RFC3339Nano)}
	if result != "" {
		read.Result = s.Body(result)
		read.TTLMs = new(int64)
		*read.TTLMs = 60_000
	}
	s.Log.Read(read)
	return &s.Reads[len(s.Reads)-1]
}

func (s story) object(seconds float64, event, kind, state, reason string) *record.Object {
	o := record.Object{At: at(seconds), Event: event, Kind: kind, Name: name, UID: kind + "-1", Task: name, State: state, Reason: reason}
	switch kind {
	case "McpTask":
		o.Nonce = "n1"
		if terminal(state) {
			o.ExpiresAt = at(60)
		}
	case "Pod":
		o.Owner, o.Node = "Job-1", "node1"
	}
	s.Log.Object(o)
	return &s.Objects[len(s.Objects)-1]
}

func (s story) deed(seconds float64, what, detail string) *record.Deed {
	s.Log.Deed(record.Deed{At: at(seconds), Task: name, Pod: "Pod-1", Run: "r1", Kind: s.Calls[0].Kind, Nonce: "n1", What: what, Detail: detail})
	return &s.Deeds[len(s.Deeds)-1]
}

func (s story) answer(seconds float64, number int, value string) *record.Answer {
	s.Log.Answer(record.Answer{Client: agent, Era: record.Modern, Replica: one, Task: name, Value: value, Sent: at(seconds), Answered: at(seconds + 0.1), Acknowledged: true,
		Question: record.Question{Key: fmt.Sprintf("k%d", number), Message: work.Question("n1", number)}})
	return &s.Answers[len(s.Answers)-1]
}

const asked = `{"content":[],"structuredContent":{"nonce":"n1","answers":["a","b"]}}`

func tell(t *testing.T, kind, result string) story {
	t.Helper()
	log, err := record.Create(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	s := story{log}
	log.Call(record.Call{Client: agent, Era: record.Modern, ID: "c1", Kind: kind, Nonce: "n1", Keyed: true, Task: name, Sent: at(0), Answered: at(0.1)})
	s.object(0, "ADDED", "McpTask", "", "")
	s.object(1, "ADDED", "Job", "", "")
	s.object(1, "ADDED", "Pod", "Pending", "")
	s.deed(2, work.Started, "")
	s.read(3, one, "working", "")
	if kind == work.Asking {
		for i, value := range []string{"a", "b"} {
			s.read(4+float64(i), one, "input_required", "").Questions = []record.Question{{Key: fmt.Sprintf("k%d", i+1), Message: work.Question("n1", i+1)}}
			s.answer(4.5+float64(i), i+1, value)
			s.deed(4.7+float64(i), work.Answered, fmt.Sprintf("%d=%s", i+1, value))
		}
	}
	s.deed(7, work.Effect, "paid")
	s.deed(7, work.Done, "")
	s.object(7.5, "MODIFIED", "Pod", "Succeeded", "")
	s.object(8, "MODIFIED", "McpTask", "completed", "Succeeded")
	s.read(9, one, "completed", result)
	s.read(10, two, "completed", result)
	for _, kind := range []string{"Pod", "Job"} {
		s.object(20, "DELETED", kind, "", "")
	}
	s.object(61, "DELETED", "McpTask", "completed", "Succeeded")
	s.read(62, one, "", "").Unknown = true
	log.Fault(record.Fault{Kind: Healed, Began: at(0), Ended: at(0.1)})
	return s
}

const short = `{"content":[],"structuredContent":{"nonce":"n1"}}`

func TestWhatWentWellIsNotBlamed(t *testing.T) {
	for kind, result := range map[string]string{
		work.Short: short, work.Asking: asked,
		work.Large: `{"content":[],"structuredContent":{"nonce":"n1","text":"` + work.LargeText("n1") + `"}}`,
	} {
		if report := Judge(tell(t, kind, result).Log); len(report.Violations) > 0 || report.Tasks[kind][ok] != 1 {
			t.Errorf("%s: %v %v", kind, report.Violations, report.Tasks)
		}
	}
	cut := tell(t, work.Large, `{"content":[{"type":"text","text":"The result has 102400 bytes, more than are kept."}]}`)
	if report := Judge(cut.Log); len(report.Violations) > 0 {
		t.Errorf("a result that is said to be cut: %v", report.Violations)
	}
}

// Each promise, and how it is broken.
func TestBrokenPromisesAreFound(t *testing.T) {
	for rule, spoil := range map[string]map[string]func(story){
		"no handle to nothing": {"the cluster never had the task": func(s story) {
			s.Objects = slices.DeleteFunc(s.Objects, func(o record.Object) bool { return o.Kind == "McpTask" })
		}},
		"handles resolve": {
			"unknown before its ttlMs": func(s story) { s.read(40, one, "", "").Unknown = true },
			"unknown before its end":   func(s story) { s.read(5, one, "", "").Unknown = true },
			"refused":                  func(s story) { s.read(5, one, "", "").Refused = `{"code":-32601}` },
		},
		"calls are taken": {"a call is refused": func(s story) { s.Calls[0].Refused = `{"code":-32602}` }},
		"one task a call": {
			"two handles": func(s story) {
				s.Log.Call(record.Call{ID: "c1", Kind: s.Calls[0].Kind, Nonce: "n1", Keyed: true, Task: "another"})
			},
			"two objects": func(s story) { s.object(5, "ADDED", "McpTask", "", "").Name = "another" },
		},
		"one Job a task": {
			"two Jobs":          func(s story) { s.object(6, "ADDED", "Job", "", "").UID = "Job-2" },
			"a stranger's Pod ": func(s story) { s.Objects[2].Owner = "Job-9" },
		},
		"no runs beyond the Job's own": {"more Pods than attempts": func(s story) {
			for i := range 5 {
				s.object(6, "ADDED", "Pod", "Running", "").UID = fmt.Sprint("extra", i)
			}
		}},
		"a Pod runs the work once": {"a second process": func(s story) { s.deed(6, work.Started, "").Run = "r2" }},
		"no side effect beyond the Job's own retries": {"paid again and again": func(s story) {
			for range 3 {
				s.deed(6, work.Effect, "paid")
			}
		}},
		"terminal is final": {
			"another state":       func(s story) { s.read(30, two, "failed", "").Error = `{"code":1}` },
			"another result":      func(s story) { s.read(30, two, "completed", `{"content":[1]}`) },
			"the object changes":  func(s story) { s.object(30, "MODIFIED", "McpTask", "failed", "NodeLost") },
			"a replica goes back": func(s story) { s.read(30, one, "working", "") },
			"another last change": func(s story) { s.read(30, two, "completed", s.Bodies[s.Reads[len(s.Reads)-3].Result]).UpdatedAt = "x" },
		},
		"replicas catch up": {"a replica stays behind": func(s story) { s.read(30, "http://10.0.0.3:8080", "working", "") }},
		"reads agree": {"the other revision says otherwise": func(s story) {
			s.read(30, one, "failed", "").Era = record.Legacy
		}},
		"no question twice": {
			"the same words with another key": func(s story) {
				s.read(4.2, one, "input_required", "").Questions = []record.Question{{Key: "k9", Message: work.Question("n1", 1)}}
			},
			"shown after its answer": func(s story) {
				s.read(6, one, "input_required", "").Questions = []record.Question{{Key: "k1", Message: work.Question("n1", 1)}}
			},
		},
		"no answer is lost": {
			"it never reached the work": func(s story) {
				s.Deeds = slices.DeleteFunc(s.Deeds, func(d record.Deed) bool { return strings.HasPrefix(d.Detail, "1=") })
			},
			"another one reached it": func(s story) { s.answer(4.1, 1, "z").Acknowledged = true },
		},
		"answers do not change": {
			"from attempt to attempt": func(s story) { s.deed(6, work.Answered, "1=z") },
		},
		"answers are taken": {"an answer is refused": func(s story) {
			a := s.answer(4.1, 1, "a")
			a.Acknowledged, a.Refused = false, `{"code":-32602}`
		}},
		"every task ends": {"it goes on for ever": func(s story) {
			for i := range s.Objects {
				s.Objects[i].State = "working"
			}
			s.Reads = s.Reads[:1]
		}},
		"tasks end as they should": {"it failed for no reason": func(s story) {
			for i := range s.Objects {
				if s.Objects[i].Kind == "McpTask" && s.Objects[i].State != "" {
					s.Objects[i].State, s.Objects[i].Reason, s.Objects[i].Message = "failed", "JobFailed", "the Job failed"
				}
			}
			for i := range s.Reads {
				if terminal(s.Reads[i].Status) {
					s.Reads[i].Status, s.Reads[i].Result, s.Reads[i].Error = "failed", "", `{"code":-32603,"message":"the Job failed"}`
				}
			}
		}},
		"results are right": {
			"the work never came to its end": func(s story) {
				s.Deeds = slices.DeleteFunc(s.Deeds, func(d record.Deed) bool { return d.What == work.Done })
			},
			"another call's result": func(s story) {
				for hash, text := range s.Bodies {
					s.Bodies[hash] = strings.ReplaceAll(text, "n1", "n2")
				}
			},
		},
		"nothing is left over": {"a Job": func(s story) { s.object(70, "MODIFIED", "Job", "Complete", "") }},
		"it recovers":          {"no answer long after": func(s story) { s.read(50, one, "", "").Lost = "connection refused" }},
	} {
		for what, spoiled := range spoil {
			t.Run(rule+"/"+what, func(t *testing.T) {
				s := tell(t, work.Asking, asked)
				spoiled(s)
				found := Judge(s.Log).Violations
				if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == rule }) {
					t.Errorf("found %v", found)
				}
			})
		}
	}
}

func TestWhatAFaultExplainsIsNotBlamed(t *testing.T) {
	fail := func(s story, words string) {
		for i := range s.Objects {
			if s.Objects[i].Kind == "McpTask" && s.Objects[i].State != "" {
				s.Objects[i].State, s.Objects[i].Reason = "failed", "NodeLost"
			}
		}
		for i := range s.Reads {
			if terminal(s.Reads[i].Status) {
				s.Reads[i].Status, s.Reads[i].Result, s.Reads[i].Error = "failed", "", `{"code":-32603,"message":"`+words+`"}`
			}
		}
	}
	const lost, notStarted = "node1 was lost", "(StartError): failed to create containerd task: failed to create shim task: context canceled"
	for _, c := range []struct {
		words     string
		fault     record.Fault
		explained bool
	}{
		{lost, record.Fault{Kind: "stop-node", Node: "node1", Began: at(3), Ended: at(5)}, true},
		{lost, record.Fault{Kind: "stop-node", Node: "node2", Began: at(3), Ended: at(5)}, false},
		{lost, record.Fault{Kind: "stop-node", Node: "node1", Began: at(30), Ended: at(35)}, false},
		{lost, record.Fault{Kind: "kill-work", Task: name, Began: at(3), Ended: at(3)}, true},
		{lost, record.Fault{Kind: "kill-work", Task: "another", Began: at(3), Ended: at(3)}, false},
		{lost, record.Fault{Kind: "kill-kubelet", Node: "node1", Began: at(1), Ended: at(1)}, false},
		{notStarted, record.Fault{Kind: "kill-kubelet", Node: "node1", Began: at(1), Ended: at(1)}, true},
		{notStarted, record.Fault{Kind: "kill-kubelet", Node: "node2", Began: at(1), Ended: at(1)}, false},
		{lost, record.Fault{Kind: "kill-bridge", Node: "node1", Began: at(3), Ended: at(3)}, false},
	} {
		s := tell(t, work.Short, short)
		fail(s, c.words)
		s.Log.Fault(c.fault)
		if found := Judge(s.Log).Violations; len(found) == 0 != c.explained {
			t.Errorf("%+v: %v", c.fault, found)
		}
	}
}

func TestOutputThatAFaultTookIsNotBlamed(t *testing.T) {
	const nothing, said = `{"content":[]}`, `{"content":[{"type":"text","text":"The Pod is gone, and its output with it."}]}`
	for _, c := range []struct {
		result    string
		fault     record.Fault
		explained bool
	}{
		{nothing, record.Fault{Kind: "kill-containerd", Node: "node1", Began: at(3), Ended: at(4)}, true},
		{nothing, record.Fault{Kind: "kill-containerd", Node: "node2", Began: at(3), Ended: at(4)}, false},
		{nothing, record.Fault{Kind: "kill-containerd", Node: "node1", Began: at(9), Ended: at(10)}, false}, // the log was written
		{nothing, record.Fault{Kind: "kill-kubelet", Node: "node1", Began: at(3), Ended: at(4)}, false},     // it writes none
		{nothing, record.Fault{Kind: "delete-work", Task: name, Began: at(7), Ended: at(7)}, false},         // and nothing says so
		{said, record.Fault{Kind: "delete-work", Task: name, Began: at(7), Ended: at(7)}, true},
		{said, record.Fault{Kind: "delete-work", Task: "another", Began: at(7), Ended: at(7)}, false},
	} {
		s := tell(t, work.Short, c.result)
		s.Log.Fault(c.fault)
		if found := Judge(s.Log).Violations; len(found) == 0 != c.explained {
			t.Errorf("%+v: %v", c.fault, found)
		}
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	s := tell(t, work.Asking, asked)
	file := filepath.Join(t.TempDir(), "again")
	again, err := record.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Calls {
		again.Call(c)
	}
	for _, r := range s.Reads {
		again.Read(r)
	}
	for _, a := range s.Answers {
		again.Answer(a)
	}
	for _, d := range s.Deeds {
		again.Deed(d)
	}
	for _, o := range s.Objects {
		again.Object(o)
	}
	for _, f := range s.Faults {
		again.Fault(f)
	}
	for _, text := range s.Bodies {
		again.Body(text)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	loaded, err := record.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if report := Judge(loaded); len(report.Violations) > 0 || report.Acknowledged.Answers != 2 || report.Deeds != len(s.Deeds) {
		t.Errorf("%+v", report)
	}
}
