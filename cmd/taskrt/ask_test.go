package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// accepted is an answer to approve.
const accepted = `{"action":"accept","content":{"approve":true}}`

const approve = `{"type":"object","properties":{"approve":{"type":"boolean"}},"required":["approve"]}`

// asked waits until the task has n questions, and returns their keys.
func asked(port *fakeport.Port, n int) []string {
	r := port.AwaitReport(func(r report.Report) bool { return len(r.InputRequests) == n })
	keys := []string{}
	for _, q := range r.InputRequests {
		keys = append(keys, q.Key)
	}
	return keys
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, response, printed string
		code                    int
	}{
		{"accept", `{"action":"accept","content":{"approve":true}}`, `{"action":"accept","content":{"approve":true}}`, 0},
		{"decline", `{"action":"decline"}`, `{"action":"decline"}`, 3},
		{"cancel", `{"action":"cancel"}`, `{"action":"cancel"}`, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			port := fakeport.New(t)
			p := newPod(t, port)
			p.sidecar()
			ask := p.task("ask", "--message", "Deploy <it>?", "--schema", approve)
			key := asked(port, 1)[0]
			q := port.Last().InputRequests[0]
			params := `{"mode":"form","message":"Deploy <it>?","requestedSchema":{"properties":{"approve":{"type":"boolean"}},"required":["approve"],"type":"object"}}`
			if q.Method != "elicitation/create" || string(q.Params) != params && string(q.Params) != escaped(params) {
				t.Errorf("question %s %s, want %s", q.Method, q.Params, params)
			}
			port.Answer(key, test.response)
			ask.want(test.code, test.printed, "")
		})
	}
}

// escaped is the same JSON with < and > as escapes.
func escaped(text string) string {
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(text)
}

func TestAskURL(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	ask := p.task("ask", "--url", "https://pay.example.com/1", "--message", "Pay")
	key := asked(port, 1)[0]
	var params map[string]string
	if err := json.Unmarshal(port.Last().InputRequests[0].Params, &params); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"mode": "url", "message": "Pay", "url": "https://pay.example.com/1", "elicitationId": key}
	if fmt.Sprint(params) != fmt.Sprint(want) {
		t.Errorf("params %v, want %v", params, want)
	}
	port.Answer(key, `{"action":"accept"}`)
	ask.want(0, `{"action":"accept"}`, "")
}

func TestSameQuestionTwiceIsTwoQuestions(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	args := []string{"ask", "--message", "Approve?", "--schema", approve}
	first := p.task(args...)
	port.Answer(asked(port, 1)[0], `{"action":"accept","content":{"approve":true}}`)
	first.want(0, `{"action":"accept","content":{"approve":true}}`, "")
	second := p.task(args...)
	keys := asked(port, 2)
	name, _, _ := strings.Cut(keys[0], "-")
	if keys[0] != name+"-1" || keys[1] != name+"-2" || len(name) != 12 || strings.ToLower(name) != name {
		t.Errorf("keys %v", keys)
	}
	port.Answer(keys[1], `{"action":"decline"}`)
	second.want(3, `{"action":"decline"}`, "")
}

func TestNewAttemptGetsTheSameKeysAndTheirAnswers(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	before := newPod(t, port)
	before.sidecar()
	before.task("ask", "--no-wait", "--message", "A", "--schema", approve, "--message", "B", "--schema", approve).wait()
	keys := asked(port, 2)
	port.Answer(keys[0], `{"action":"accept","content":{"approve":true}}`)

	next := fakeport.New(t) // another Pod: its sequence begins anew
	next.Answer(keys[0], `{"action":"accept","content":{"approve":true}}`)
	p := newPod(t, next)
	p.sidecar()
	// The members of the schema in another order are still the same question.
	p.task("ask", "--message", "A", "--schema", `{"required":["approve"],"properties":{"approve":{"type":"boolean"}},"type":"object"}`).
		want(0, `{"action":"accept","content":{"approve":true}}`, "")
	if got := asked(next, 1)[0]; got != keys[0] {
		t.Errorf("key %s, in the attempt before %s", got, keys[0])
	}
	// B is answered only after the answers were looked through once.
	b := p.task("ask", "--message", "B", "--schema", approve)
	next.Answer(asked(next, 2)[1], `{"action":"cancel"}`)
	b.want(4, `{"action":"cancel"}`, "")
}

func TestAnswerOfAnEarlierAttemptThatWasLookedThrough(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	keys := strings.Fields(noWait(p, "A", "B"))
	// Both answers are there before a new Pod asks for the first time; it asks for A, then for B.
	next := fakeport.New(t)
	next.Answer(keys[0], accepted)
	next.Answer(keys[1], `{"action":"decline"}`)
	again := newPod(t, next)
	again.sidecar()
	again.task("ask", "--message", "A", "--schema", approve).want(0, accepted, "")
	again.task("ask", "--message", "B", "--schema", approve).want(3, `{"action":"decline"}`, "")
}

func noWait(p *pod, messages ...string) string {
	args := []string{"ask", "--no-wait"}
	for _, m := range messages {
		args = append(args, "--message", m, "--schema", approve)
	}
	ask := p.task(args...)
	ask.wait()
	return ask.out.String()
}

func TestPodsOfAnIndexedJobDoNotShareQuestions(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, index := range []string{"0", "1"} {
		p := newPod(t, fakeport.New(t), "JOB_COMPLETION_INDEX="+index)
		p.sidecar()
		keys[noWait(p, "A")] = true
	}
	if len(keys) != 2 {
		t.Errorf("keys %v", keys)
	}
}

func TestSidecarRestartsWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	ask := p.task("ask", "--message", "Approve?", "--schema", approve)
	key := asked(port, 1)[0]
	sidecar.kill()
	p.sidecar()
	port.Answer(key, `{"action":"accept","content":{"approve":true}}`)
	ask.want(0, `{"action":"accept","content":{"approve":true}}`, "")
	// It goes on counting.
	p.task("ask", "--no-wait", "--message", "Approve?", "--schema", approve).wait()
	if keys := asked(port, 2); keys[0] != key || keys[1] != strings.TrimSuffix(key, "1")+"2" {
		t.Errorf("keys %v after %s", keys, key)
	}
	for i, r := range port.Reports()[1:] {
		if r.Sequence <= port.Reports()[i].Sequence {
			t.Errorf("sequence %d after %d", r.Sequence, port.Reports()[i].Sequence)
		}
	}
}

func TestSidecarRestartsBeforeTheQuestionIsStored(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	port.Refuse(func(report.Report) (int, string) { return http.StatusServiceUnavailable, "not now" })
	ask := p.task("ask", "--message", "Approve?", "--schema", approve)
	fakeport.Await(t, "a try", func() bool { return port.Tries() > 0 })
	sidecar.kill()
	port.Refuse(nil)
	p.sidecar()
	// The program sends its question again, with the id that it had.
	key := asked(port, 1)[0]
	port.Answer(key, accepted)
	ask.want(0, accepted, "")
	if n := len(port.Last().InputRequests); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
}

func TestBridgeIsAway(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	port.Stop()
	ask := p.task("ask", "--message", "Approve?", "--schema", approve)
	port.Start()
	key := asked(port, 1)[0]
	fakeport.Await(t, "a poll", func() bool { return port.Polls() > 0 })
	port.Stop() // cuts the poll
	port.Answer(key, accepted)
	if !ask.running() {
		t.Fatal("the program was told of the bridge's absence")
	}
	port.Start()
	ask.want(0, accepted, "")
}

func TestSeveralQuestionsAnsweredInAnyOrder(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	ask := p.task("ask", "--message", "A", "--schema", approve, "--message", "B", "--schema", approve, "--message", "C", "--url", "https://c.example.com")
	keys := asked(port, 3)
	port.Answer(keys[2], `{"action":"accept"}`)
	port.Answer(keys[0], `{"action":"cancel"}`)
	port.Answer(keys[1], `{"action":"decline"}`)
	ask.want(3, fmt.Sprintf(`[{"key":%q,"action":"cancel"},{"key":%q,"action":"decline"},{"key":%q,"action":"accept"}]`, keys[0], keys[1], keys[2]), "")
}

func TestNoWaitAndAnswer(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	keys := strings.Fields(noWait(p, "A", "B"))
	if got := asked(port, 2); fmt.Sprint(got) != fmt.Sprint(keys) {
		t.Errorf("printed %v, asked %v", keys, got)
	}
	p.task("answer", keys[0]).want(5, "", "not answered yet")
	waiting := p.task("answer", keys[0], "--wait")
	port.Answer(keys[0], `{"action":"accept","content":{"approve":false}}`)
	waiting.want(0, `{"action":"accept","content":{"approve":false}}`, "")
	p.task("answer", keys[0]).want(0, `{"action":"accept","content":{"approve":false}}`, "")
	p.task("answer", "unknown-1").want(1, "", "has asked no question with that key")
}

func TestAskTimesOut(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	ask := p.task("ask", "--message", "A", "--schema", approve, "--timeout", "100ms")
	ask.wait()
	if ask.wait() != 5 || ask.out.Len() > 0 {
		t.Errorf("exit code %d, printed %q", ask.wait(), ask.out.String())
	}
	p.task("answer", strings.TrimSpace(noWait(p, "B")), "--timeout", "50ms").want(5, "", "no answer in time")
}

func TestRefusedQuestions(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port, "MCPTASK_ASKS=form")
	p.sidecar()
	p.task("ask", "--message", "Pay", "--url", "https://pay.example.com").want(1, "", "spec.runtime.asks of its McpTool must contain URL")
	p.task("ask", "--message", "A", "--schema", `{"type":"object","properties":{"a":{"type":"object"}}}`).
		want(1, "", "questions[0]: requestedSchema.properties.a.type must be")
	p.task("ask", "--message", "A").want(1, "", "requestedSchema is missing")
	p.task("ask", "--message", "A", "--schema", "nonsense").want(2, "", "not JSON")
	port.Refuse(func(report.Report) (int, string) {
		return http.StatusUnprocessableEntity, "inputRequests[0].params.message: is not wanted"
	})
	p.task("ask", "--message", "B", "--schema", approve).want(1, "", "task ask: questions[0].message: is not wanted")
	port.Refuse(nil)
	// A refused question was never asked: the next one like it is the first.
	if key := strings.TrimSpace(noWait(p, "B")); !strings.HasSuffix(key, "-1") {
		t.Errorf("key %s", key)
	}
}

// The bridge counts all questions of a Pod, the program those of one ask.
func TestRefusedQuestionsHaveTheProgramsOwnPlaces(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	noWait(p, "A", "B")
	port.Refuse(func(report.Report) (int, string) {
		return http.StatusUnprocessableEntity, "inputRequests[3].params.url: is not wanted"
	})
	p.task("ask", "--message", "C", "--schema", approve, "--message", "D", "--schema", approve).want(1, "", "task ask: questions[1].url: is not wanted")
}

func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	p := newPod(t, fakeport.New(t))
	p.sidecar()
	var many []string
	for i := range 65 {
		many = append(many, "--message", fmt.Sprint(i), "--schema", approve)
	}
	p.task(append([]string{"ask", "--no-wait"}, many...)...).want(1, "", "65 questions are asked at once, and 0 are open; at most 64 may be open")
	p.task("ask", "--message", "A", "--schema", approve, "--timeout", "abc").
		want(2, "", `"--timeout" flag: must be a time to wait, such as 90s, 30m or 1h30m`)
	var large []string
	for i := range 20 {
		large = append(large, "--message", fmt.Sprint(i, strings.Repeat("x", 15_000)), "--schema", approve)
	}
	p.task(append([]string{"ask", "--no-wait"}, large...)...).want(1, "", "bytes together; at most 262144")
}

// Answers that were given with kubectl are checked by nobody before.
func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	for response, words := range map[string]string{
		`{"action":"accept","content":{"approve":"yes"}}`: "does not fit the question: content.approve must be true or false",
		`{"action":"accept","content":{}}`:                "does not fit the question: content.approve is missing",
		`{"action":"accept","content":[true]}`:            "does not fit the question: content must be a JSON object",
		`{"action":"accept"}`:                             "does not fit the question: content is missing",
		`{"action":7}`:                                    "does not fit the question: action must be accept, decline or cancel",
		`{"action":"maybe"}`:                              "does not fit the question: action must be accept, decline or cancel",
	} {
		ask := p.task("ask", "--message", response, "--schema", approve)
		r := port.AwaitReport(func(r report.Report) bool {
			return len(r.InputRequests) > 0 && strings.Contains(string(r.InputRequests[len(r.InputRequests)-1].Params), escapedIn(response))
		})
		key := r.InputRequests[len(r.InputRequests)-1].Key
		port.Answer(key, response)
		ask.want(1, "", "task ask: the answer to "+key+" "+words)
		p.task("answer", key).want(1, "", "task answer: the answer to "+key+" "+words)
	}
	declined := p.task("ask", "--message", "last", "--schema", approve)
	port.Answer(asked(port, 7)[6], `{"action":"decline","content":{"approve":true}}`)
	declined.want(3, `{"action":"decline"}`, "")
	page := p.task("ask", "--message", "page", "--url", "https://x.example")
	port.Answer(asked(port, 8)[7], `{"action":"accept","content":{"approve":true}}`)
	page.want(0, `{"action":"accept"}`, "")
}

// escapedIn is a text as it stands in a JSON string.
func escapedIn(text string) string { return strings.ReplaceAll(text, `"`, `\"`) }

func TestTaskThatHasEnded(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	ask := p.task("ask", "--message", "A", "--schema", approve)
	asked(port, 1)
	port.End()
	ask.want(1, "", "the task has ended")
	p.task("progress", "1").want(0, "", "")
	p.task("result", "--text", "late").want(1, "", "the task has ended")
	tries := port.Tries()
	sidecar.terminate()
	if port.Tries() != tries || sidecar.out.Len() > 0 {
		t.Errorf("after its end: %d further reports, printed %q", port.Tries()-tries, sidecar.out.String())
	}
}
