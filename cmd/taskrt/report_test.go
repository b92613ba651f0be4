package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

func TestProgressIsCoalesced(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	started := time.Now()
	p.task("state", "validating").want(0, "", "")
	for i := range 20 {
		p.task("progress", fmt.Sprint(i+1), "--total", "20", "reading").want(0, "", "")
	}
	last := port.AwaitReport(func(r report.Report) bool { return r.Progress != nil && r.Progress.Current == "20" })
	if want := (report.Progress{Current: "20", Total: "20", Message: "reading"}); *last.Progress != want || last.StateName != "validating" {
		t.Errorf("progress %+v, state %q", *last.Progress, last.StateName)
	}
	if n, seconds := len(port.Reports()), time.Since(started).Seconds(); float64(n) > seconds+2 {
		t.Errorf("%d reports in %.1f seconds", n, seconds)
	}
}

func TestProgressThatIsWrong(t *testing.T) {
	t.Parallel()
	p := newPod(t, fakeport.New(t))
	p.sidecar()
	p.task("progress", "many").want(2, "", `"many" is not a number`)
	p.task("progress", "-1", "reading").want(2, "", "-1: an amount of work must be a number from 0 on")
	p.task("progress", "1", "--total", "-2.5").want(2, "", "-2.5: an amount of work must be a number from 0 on")
	p.task("state", "a\x1b[2J").want(1, "", "name must be plain text in one line, without the character U+001B")
	p.task("progress", "--", "-1").want(1, "", "current must be a number from 0")
	p.task("progress").want(2, "", "has 0 arguments")
	p.task("state", strings.Repeat("x", 65)).want(1, "", "name has 65 characters; at most 64")
	p.task("progress", "1e3", strings.Repeat("ä", 2000)).want(0, "", "")
	last := p.port.AwaitReport(func(r report.Report) bool { return r.Progress != nil })
	if n := len([]rune(last.Progress.Message)); last.Progress.Current != "1000" || n != report.MaxMessage {
		t.Errorf("current %s, a message of %d characters", last.Progress.Current, n)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	p.write("plain.json", `{"pages": 3, "big": 12345678901234567890}`)
	p.write("whole.json", `{"content":[{"type":"text","text":"a"}],"isError":true}`)
	p.write("note.txt", "hello")
	p.write("dot.png", "\x89PNG\r\n\x1a\n")
	p.write("tone", "\xff\xfb")
	p.write("blob", "\x00\x01\x02")
	for _, test := range []struct{ args, want string }{
		{"--json plain.json", `{"content":[],"structuredContent":{"pages":3,"big":12345678901234567890}}`},
		{"--json whole.json", `{"content":[{"type":"text","text":"a"}],"isError":true}`},
		{"--text hello", `{"content":[{"type":"text","text":"hello"}]}`},
		{"--text see --file dot.png", `{"content":[{"type":"text","text":"see"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}]}`},
		{"--file tone:audio/mpeg", `{"content":[{"type":"audio","data":"//s=","mimeType":"audio/mpeg"}]}`},
		{"--file blob:application/x-thing", `{"content":[{"type":"resource","resource":{"uri":"file:///blob","mimeType":"application/x-thing","blob":"AAEC"}}]}`},
		{"--file note.txt:text/plain", `{"content":[{"type":"resource","resource":{"uri":"file:///note.txt","mimeType":"text/plain","text":"hello"}}]}`},
	} {
		args := strings.Fields(strings.NewReplacer("plain.json", p.path("plain.json"), "whole.json", p.path("whole.json"),
			"dot.png", p.path("dot.png"), "tone", p.path("tone"), "blob", p.path("blob"), "note.txt", p.path("note.txt")).Replace(test.args))
		p.task(append([]string{"result"}, args...)...).want(0, "", "")
		if last := port.Last(); last.Outcome != "result" || string(last.Result) != test.want {
			t.Errorf("%s: %s %s, want %s", test.args, last.Outcome, last.Result, test.want)
		}
	}
	p.task("result", "--json", p.path("note.txt")).want(1, "", "note.txt is not JSON")
	p.task("result", "--json", p.path("absent")).want(1, "", "no such file")
	p.task("result").want(2, "", "needs --json, --text or --file")
}

func TestResultThatIsTooLarge(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	p.write("big.json", `{"a":"`+strings.Repeat("x", 5<<20)+`"}`)
	for _, args := range [][]string{{"--json", p.path("big.json")}, {"--file", p.path("big.json")}} {
		p.task(append([]string{"result"}, args...)...).want(0, "", "")
		if last := string(port.Last().Result); !strings.Contains(last, "5242888 bytes") || !strings.Contains(last, "left out") || port.Last().ResultSize != 5242888 {
			t.Errorf("%v: %.300s, size %d", args, last, port.Last().ResultSize)
		}
	}
	p.write("small", "12345")
	p.task("result", "--text", "seven b", "--file", p.path("small")+":text/plain", "--file", p.path("big.json")).want(0, "", "")
	if last := port.Last(); last.ResultSize != 5242888+5+7 || !strings.Contains(string(last.Result), "12345") {
		t.Errorf("%s, size %d", last.Result, last.ResultSize)
	}
	p.task("result", "--file", "/dev/zero").want(0, "", "")
	if last := string(port.Last().Result); !strings.Contains(last, "more than 1073741824 bytes) is left out") {
		t.Errorf("%s", last)
	}
	p.task("result", "--text", "small").want(0, "", "")
	if last := port.Last(); last.ResultSize != 0 {
		t.Errorf("the size of a result that is whole: %d", last.ResultSize)
	}
}

func TestFailAndCancelled(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	p.task("fail", "--code", "-32000", "--message", "no disk", "--data", `{"free":0}`).want(0, "", "")
	want := `{"code":-32000,"message":"no disk","data":{"free":0}}`
	if got, _ := json.Marshal(port.Last().Error); port.Last().Outcome != "failed" || string(got) != want {
		t.Errorf("%s %s", port.Last().Outcome, got)
	}
	p.task("cancelled").want(0, "", "")
	if last := port.Last(); last.Outcome != "cancelled" || last.Error != nil {
		t.Errorf("%s %v", last.Outcome, last.Error)
	}
	for code, words := range map[string]string{"-32021": "reserved by MCP", "-32002": "reserved by MCP", "-32600": "reserved by JSON-RPC", "0": "code must not be 0"} {
		p.task("fail", "--code", code, "--message", "x").want(1, "", words)
	}
	for _, code := range []string{"99999999999", "many"} {
		p.task("fail", "--code", code, "--message", "x").want(2, "", `"--code" flag: must be a whole number from -2147483648 to 2147483647`)
	}
	p.task("fail", "--message", "x").want(2, "", "needs --code and --message")
}

func TestRefusedOutcomeLeavesTheOneBefore(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	p.task("result", "--text", "first").want(0, "", "")
	port.Refuse(func(r report.Report) (int, string) {
		if strings.Contains(string(r.Result), "second") {
			return http.StatusUnprocessableEntity, "result is not wanted"
		}
		return 0, ""
	})
	p.task("result", "--text", "second").want(1, "", "result is not wanted")
	p.task("state", "after").want(0, "", "")
	last := port.AwaitReport(func(r report.Report) bool { return r.StateName == "after" })
	if !strings.Contains(string(last.Result), "first") {
		t.Errorf("result %s", last.Result)
	}
}

func TestWhatIsRefusedDoesNotTakeTheRestWithIt(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	port.Refuse(func(report.Report) (int, string) { return http.StatusServiceUnavailable, "" })
	good := p.task("ask", "--no-wait", "--message", "good", "--schema", approve)
	bad := p.task("ask", "--no-wait", "--message", "bad", "--schema", approve)
	fakeport.Await(t, "both questions", func() bool {
		state, err := os.ReadFile(p.path("run/journal"))
		return err == nil && strings.Contains(string(state), `"good"`) && strings.Contains(string(state), `"bad"`)
	})
	port.Refuse(func(r report.Report) (int, string) {
		for _, q := range r.InputRequests {
			if strings.Contains(string(q.Params), "bad") {
				return http.StatusUnprocessableEntity, "a bad question"
			}
		}
		return 0, ""
	})
	bad.want(1, "", "a bad question")
	if good.wait() != 0 || len(asked(port, 1)) != 1 {
		t.Errorf("the other question: %s", good.errOut.String())
	}
}

func TestPodThatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	left := 3
	port.Refuse(func(report.Report) (int, string) {
		if left == 0 {
			return 0, ""
		}
		left--
		return http.StatusConflict, "the Pod is not known yet"
	})
	p.task("result", "--text", "x").want(0, "", "")
	if port.Tries() < 4 {
		t.Errorf("%d tries", port.Tries())
	}
}

func TestLostJournal(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	for _, text := range []string{"a", "b", "c"} {
		p.task("result", "--text", text).want(0, "", "")
	}
	sidecar.kill()
	p.write("run/journal", `{"sequence":`)
	p.sidecar()
	// The sequence begins anew, which the bridge does not take for news: the sidecar goes beyond it.
	p.task("result", "--text", "d").want(0, "", "")
	if last := string(port.Last().Result); !strings.Contains(last, `"d"`) {
		t.Errorf("result %s", last)
	}
}

func TestWithoutSidecar(t *testing.T) {
	t.Parallel()
	p := newPod(t, fakeport.New(t))
	p.sidecar()
	p.env = []string{asProgram + "=1"}
	p.task("state", "x").want(1, "", "MCPTASK_SOCKET is not set: task works in the containers of a task's Pod")
	p.env = append(p.env, "MCPTASK_SOCKET=/nowhere/task.sock")
	p.task("state", "x").want(1, "", "there is no socket at /nowhere/task.sock (MCPTASK_SOCKET)")
	p.task("nonsense").want(2, "", `there is no "nonsense"`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.start(self, "serve").want(1, "", "MCPTASK_RUNTIME_URL is not set")
}

func TestAnyUserMayUseTheSocket(t *testing.T) {
	t.Parallel()
	p := newPod(t, fakeport.New(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.start("/bin/sh", "-c", `umask 077; exec "$@"`, "sh", self, "serve", "--token-file", p.port.TokenFile)
	p.start(self, "ready").want(0, "", "")
	for path, want := range map[string]os.FileMode{"run/task.sock": 0o666, "bin/task": 0o755, "run": 0o755, "bin": 0o755} {
		info, err := os.Stat(p.path(path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
	}
}
