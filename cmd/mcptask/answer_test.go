package main

import (
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
)

const asking = `{"resultType":"complete","taskId":"t1","status":"input_required","createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttlMs":null,"inputRequests":{
	"a-1":{"method":"elicitation/create","params":{"mode":"form","message":"Pay?","requestedSchema":{"type":"object","properties":{"approve":{"type":"boolean"},"amount":{"type":"integer"},"why":{"type":"string"}}}}}MORE}}`

const another = `,"u-1":{"method":"elicitation/create","params":{"mode":"url","message":"Sign","url":"https://example.com/s"}}`

func TestAnswer(t *testing.T) {
	one, two := strings.Replace(asking, "MORE", "", 1), strings.Replace(asking, "MORE", another, 1)
	for name, tc := range map[string]struct {
		task, line, sent string
	}{
		"values":     {one, "--set approve=true --set amount=12 --set why=77", `{"a-1":{"action":"accept","content":{"amount":12,"approve":true,"why":"77"}}}`},
		"an object":  {one, `--content {"amount":1}`, `{"a-1":{"action":"accept","content":{"amount":1}}}`},
		"declined":   {one, "--decline", `{"a-1":{"action":"decline"}}`},
		"cancelled":  {two, "--key a-1 --cancel", `{"a-1":{"action":"cancel"}}`},
		"a URL":      {two, "--key u-1 --visited", `{"u-1":{"action":"accept"}}`},
		"the others": {two, "--key u-1 --decline", `{"u-1":{"action":"decline"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			bridge := fakebridge.New(t)
			bridge.On("tasks/get", fakebridge.Result(tc.task))
			bridge.On("tasks/update", fakebridge.Result(`{"resultType":"complete"}`))
			run(t, bridge, append([]string{"answer", "t1"}, strings.Fields(tc.line)...)...).check(t, 0, "", "Answered.")
			if sent := string(bridge.Requests("tasks/update")[0].Params.Responses); sent != tc.sent {
				t.Errorf("sent %s, want %s", sent, tc.sent)
			}
		})
	}
}

func TestAnswersThatCannotBe(t *testing.T) {
	one, two := strings.Replace(asking, "MORE", "", 1), strings.Replace(asking, "MORE", another, 1)
	none := `{"resultType":"complete","taskId":"t1","status":"working","createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttlMs":null}`
	for name, tc := range map[string]struct{ task, line, said string }{
		"which":            {two, "--decline", "2 open questions: say which with --key a-1 or --key u-1"},
		"no such":          {one, "--key x --decline", `no open question "x"; open are: a-1`},
		"none":             {none, "--decline", "no open question"},
		"two ways":         {one, "--decline --cancel", "answer in one way"},
		"no way":           {one, "", "answer in one way"},
		"visit a form":     {one, "--visited", "this question is a form"},
		"fill in a URL":    {two, "--key u-1 --set a=1", "visit it and answer with --visited"},
		"of another type":  {one, "--set amount=much", "the form wants integer here"},
		"no such field":    {one, "--set amont=1", "the form has no field amont, but: amount, approve, why"},
		"no object":        {one, "--content 3", "must be a JSON object"},
		"no pair":          {one, "--set amount", "is not NAME=VALUE"},
		"the same, again ": {one, "--set amount=1 --set amount=2", "--set amount is given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			bridge := fakebridge.New(t)
			bridge.On("tasks/get", fakebridge.Result(tc.task))
			run(t, bridge, append([]string{"answer", "t1"}, strings.Fields(tc.line)...)...).check(t, exitUsage, "", tc.said)
		})
	}
}

func TestGetShowsQuestionsInWords(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tasks/get", fakebridge.Result(strings.Replace(asking, "MORE", another, 1)))
	got := run(t, bridge, "get", "t1")
	for _, part := range []string{"Question a-1:", "Pay? (amount integer, approve boolean, why string)", "Question u-1:", "Sign (visit https://example.com/s)"} {
		if !strings.Contains(got.out, part) {
			t.Errorf("printed %s, want %q in it", got.out, part)
		}
	}
}
