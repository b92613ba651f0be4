package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

func TestCallPrintsAResult(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/call", fakebridge.Result(hello))
	run(t, bridge, "call", "greet", `{"name":"Ada"}`).check(t, 0, "Hello, Ada!\n")
	sent := bridge.Requests("tools/call")[0]
	if sent.Params.Name != "greet" || string(sent.Params.Arguments) != `{"name":"Ada"}` || !sent.Tasks() {
		t.Errorf("sent %+v", sent.Params)
	}
}

func TestCallPrintsJSON(t *testing.T) {
	bridge := fakebridge.New(t)
	const result = `{"resultType":"complete","content":[],"structuredContent":{"z":1.0,"a":"<&>","n":9007199254740993}}`
	bridge.On("tools/call", fakebridge.Result(result))
	got := run(t, bridge, "call", "greet", "-o", "json")
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(got.out)); err != nil || compact.String() != result {
		t.Errorf("printed %s, %v", got.out, err)
	}
	if sent := bridge.Requests("tools/call")[0].Params.Arguments; sent != nil {
		t.Errorf("sent arguments %s", sent)
	}
}

func TestAMisspeltArgumentIsNotSent(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[{"name":"rest","inputSchema":{"type":"object","properties":{"seconds":{"type":"integer"}}}}]}`))
	run(t, bridge, "call", "rest", "--arg", "secs=5").check(t, exitUsage, "", "the tool rest names no argument secs, but: seconds")
}

func TestCallWithTypedArguments(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[{"name":"crawl","inputSchema":{"type":"object","additionalProperties":true,"properties":{
		"url":{"type":"string"},"depth":{"type":"integer"},"deep":{"type":"boolean"},"tags":{"type":"array"},"id":{"type":["string","null"]}}}}]}`))
	bridge.On("tools/call", fakebridge.Result(hello))
	run(t, bridge, "call", "crawl", "--arg", "url=1234", "--arg", "depth=20", "--arg", "deep=true", "--arg", `tags=["a=b","c,d"]`,
		"--arg", "id=null", "--arg", "free=7", "--arg", "text=a=b,c").check(t, 0, "Hello, Ada!\n")
	want := `{"deep":true,"depth":20,"free":7,"id":null,"tags":["a=b","c,d"],"text":"a=b,c","url":"1234"}`
	if got := string(bridge.Requests("tools/call")[0].Params.Arguments); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	run(t, bridge, "call", "crawl", "--arg", "depth=deep").check(t, exitUsage, "", "--arg depth=deep: the tool crawl wants integer here")
	run(t, bridge, "call", "crowl", "--arg", "depth=1").check(t, exitRefused, "", `there is no tool "crowl" here that you may call and that is ready; there are: crawl`)
}

func TestCallWithoutTasks(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/call", fakebridge.Stream(func(id json.RawMessage) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":3,"total":10,"message":"three\nof them"}}` + "\n\n" +
			fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":%s}`, id, hello) + "\n\n"
	}), fakebridge.Error(400, -32021, "Missing required client capability"))
	run(t, bridge, "call", "greet", "--no-tasks").check(t, 0, "Hello, Ada!\n", "working         3 of 10: three of them\n")
	if bridge.Requests("tools/call")[0].Tasks() {
		t.Error("the tasks extension was declared")
	}
	run(t, bridge, "call", "greet", "--no-tasks").check(t, exitRefused, "", "this tool cannot be called with --no-tasks")
}

func TestCallReportsAToolError(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/call", fakebridge.Result(`{"content":[{"type":"text","text":"exit code 3"}],"isError":true}`))
	run(t, bridge, "call", "greet").check(t, exitToolError, "exit code 3\n", "Error: the tool reported an error\n")
}

func TestCallTellsFailureFromRefusal(t *testing.T) {
	for _, c := range []struct {
		answer fakebridge.Answer
		code   int
		said   string
	}{
		{fakebridge.Error(200, -32603, "The image cannot be pulled"), exitFailed, "Error: the call failed: The image cannot be pulled (error -32603)\n"},
		{fakebridge.Error(200, 17, "quota"), exitFailed, "Error: the call failed: quota (error 17)\n"},
		{fakebridge.Error(200, -32602, "Unknown tool: greet"), exitRefused, "Unknown tool: greet (error -32602)\n"},
		{fakebridge.Error(400, -32020, "header"), exitRefused, "header (error -32020)\n"},
		{fakebridge.Plain(502, "<html>"), exitRefused, "HTTP 502 Bad Gateway\n"},
	} {
		bridge := fakebridge.New(t)
		bridge.On("tools/call", c.answer)
		run(t, bridge, "call", "greet").check(t, c.code, "", c.said)
	}
}

func TestCallBecomesATask(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/call", fakebridge.Result(fakebridge.Task("task", "t1", "working", unlimited)))
	run(t, bridge, "call", "slow").check(t, 0, "t1\n", "mcptask wait t1 --server "+bridge.URL+"/mcp/default\n", "mcptask cancel t1 --server ")
	if got := run(t, bridge, "call", "slow", "-o", "json"); !strings.Contains(got.out, `"taskId": "t1"`) {
		t.Errorf("printed %s", got.out)
	}
}

func TestCallWaitsForItsTask(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/call", fakebridge.Result(fakebridge.Task("task", "t1", "working", unlimited)))
	bridge.On("tasks/get",
		fakebridge.Result(fakebridge.Task("complete", "t1", "working", unlimited, `"statusMessage":"Pulling the\nimage"`)),
		fakebridge.Result(fakebridge.Task("complete", "t1", "working", unlimited, `"statusMessage":"Pulling the\nimage"`)),
		fakebridge.Result(fakebridge.Task("complete", "t1", "completed", unlimited, completed)))
	got := run(t, bridge, "call", "slow", "--wait")
	got.check(t, 0, "Hello, Ada!\n", "The call has become task t1.\n", "working         Pulling the image\n", "completed\n")
	if n := strings.Count(got.errOut, "Pulling"); n != 1 {
		t.Errorf("said the same thing %d times: %s", n, got.errOut)
	}
}

func TestHowTasksEnd(t *testing.T) {
	for _, c := range []struct {
		task string
		code int
		out  string
		said string
	}{
		{fakebridge.Task("complete", "t1", "completed", completed), 0, "Hello, Ada!\n", ""},
		{fakebridge.Task("complete", "t1", "completed", `"result":{"content":[{"type":"text","text":"no"}],"isError":true}`), exitToolError, "no\n", "the tool reported an error"},
		{fakebridge.Task("complete", "t1", "failed", `"error":{"code":-32603,"message":"no such image"}`), exitFailed, "", "Error: task t1 failed: no such image (error -32603)\n"},
		{fakebridge.Task("complete", "t1", "cancelled", `"statusMessage":"by Ada"`), exitFailed, "", "Error: task t1 was cancelled: by Ada\n"},
	} {
		bridge := fakebridge.New(t)
		bridge.On("tasks/get", fakebridge.Result(c.task))
		run(t, bridge, "wait", "t1").check(t, c.code, c.out, c.said)
	}
}

func TestWaitForAnUnknownTask(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tasks/get", fakebridge.Error(400, -32602, "Unknown task"))
	got := run(t, bridge, "wait", "t1")
	got.check(t, exitRefused, "", "Error: tasks/get: Unknown task (error -32602)\n")
	if strings.Contains(got.errOut, "goes on") {
		t.Errorf("said of a task that is not there: %s", got.errOut)
	}
}

func TestInterruptedWaitLeavesTheTask(t *testing.T) {
	bridge := fakebridge.New(t)
	ctx, interrupt := context.WithCancel(t.Context())
	working := fakebridge.Result(fakebridge.Task("complete", "t1", "working", `"pollIntervalMs":3600000`))
	came, left := make(chan struct{}), make(chan struct{})
	bridge.On("tasks/get", fakebridge.Hang(came, left), working)
	go func() { <-came; interrupt() }()
	got := runIn(ctx, nil, "wait", "t1", "--server", bridge.URL)
	got.check(t, exitInterrupted, "", "The task goes on.", "mcptask wait t1 --server "+bridge.URL, "mcptask cancel t1 --server ", "Error: interrupted\n")
	<-left
	if n := len(bridge.Requests("tasks/cancel")); n != 0 {
		t.Errorf("the task was cancelled")
	}
}

func TestInterruptedCall(t *testing.T) {
	bridge := fakebridge.New(t)
	ctx, interrupt := context.WithCancel(t.Context())
	came, left := make(chan struct{}), make(chan struct{})
	bridge.On("tools/call", fakebridge.Hang(came, left))
	go func() { <-came; interrupt() }()
	runIn(ctx, nil, "call", "slow", "--server", bridge.URL).check(t, exitInterrupted, "", "the server takes this as a cancellation", "Error: interrupted\n")
	<-left
}

func TestGet(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tasks/get", fakebridge.Result(fakebridge.Task("complete", "t1", "failed", `"statusMessage":"no image"`, `"error":{"code":-32603,"message":"no such image"}`)))
	got := run(t, bridge, "get", "t1")
	if got.code != 0 {
		t.Errorf("exit code %d: %s", got.code, got.errOut)
	}
	for _, part := range []string{"Task:     t1\n", "Status:   failed\n", "Message:  no image\n", "Error:    no such image (error -32603)\n"} {
		if !strings.Contains(got.out, part) {
			t.Errorf("printed %q, want %q in it", got.out, part)
		}
	}
	bridge.On("tasks/get", fakebridge.Result(fakebridge.Task("complete", "t1", "completed", completed)))
	if got := run(t, bridge, "get", "t1"); !strings.HasSuffix(got.out, "\nResult:\nHello, Ada!\n") {
		t.Errorf("printed %q", got.out)
	}
	if got := run(t, bridge, "get", "t1", "-o", "json"); !strings.Contains(got.out, `"status": "completed"`) {
		t.Errorf("printed %q", got.out)
	}
}

func TestCancel(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tasks/cancel", fakebridge.Result(`{"resultType":"complete"}`))
	bridge.On("tasks/get", fakebridge.Result(`{"resultType":"complete","taskId":"t1","status":"working"}`))
	run(t, bridge, "cancel", "t1").check(t, 0, "", "The task was asked to end.")
	if got := bridge.Requests("tasks/cancel")[0].Params.TaskID; got != "t1" {
		t.Errorf("cancelled %q", got)
	}
	bridge.On("tasks/get", fakebridge.Result(`{"resultType":"complete","taskId":"t1","status":"cancelled"}`))
	run(t, bridge, "cancel", "t1").check(t, 0, "", "The task had ended already, as cancelled: nothing was changed.")
	if n := len(bridge.Requests("tasks/cancel")); n != 1 {
		t.Errorf("%d requests to cancel", n)
	}
}

func TestWriteContent(t *testing.T) {
	for _, c := range []struct{ result, want string }{
		{`{"content":[{"type":"text","text":"a\n"},{"type":"text","text":"{\"n\": 1}"}],"structuredContent":{"n":1}}`, "a\n"},
		{`{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`, "{\n  \"n\": 1\n}\n"},
		{`{"content":[{"type":"text","text":"{\"n\":2}"}],"structuredContent":{"n":1}}`, "{\"n\":2}\n"},
		{`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "[image image/png; -o json shows it]\n"},
		{`{"content":[]}`, ""},
	} {
		var result mcpclient.ToolResult
		if err := json.Unmarshal([]byte(c.result), &result); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := writeContent(&out, &result); err != nil || out.String() != c.want {
			t.Errorf("%s: printed %q, want %q (%v)", c.result, out.String(), c.want, err)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(" a\n\tb\x1b[31mc\u202ed  "); got != "a b[31mcd" {
		t.Errorf("got %q", got)
	}
}

func TestGivenFlagsCanBeTypedAgain(t *testing.T) {
	p := &program{name: "mcptask"}
	flags := p.command().PersistentFlags()
	if err := flags.Parse([]string{"-n", "team a", "--server", "http://x/it's"}); err != nil {
		t.Fatal(err)
	}
	if got, want := given(flags), ` --namespace 'team a' --server 'http://x/it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
