package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// put renames a result into place.
func (p *pod) put(result string) {
	p.t.Helper()
	p.write("result.new", result)
	if err := os.Rename(p.path("result.new"), p.path("result.json")); err != nil {
		p.t.Fatal(err)
	}
}

func hasResult(text string) func(report.Report) bool {
	return func(r report.Report) bool { return r.Outcome == "result" && strings.Contains(string(r.Result), text) }
}

func TestResultFileIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	p.put(`{"pages":3}`)
	r := port.AwaitReport(hasResult("pages"))
	if want := `{"content":[],"structuredContent":{"pages":3}}`; string(r.Result) != want {
		t.Errorf("result %s, want %s", r.Result, want)
	}
	p.put(`{"content":[{"type":"text","text":"better"}]}`)
	port.AwaitReport(hasResult("better"))
	// What was taken once is not taken again over a later outcome, also not by a sidecar that is restarted.
	p.task("fail", "--code", "1", "--message", "after all").want(0, "", "")
	sidecar.kill()
	sidecar = p.sidecar()
	sidecar.terminate()
	if last := port.Last(); last.Outcome != "failed" {
		t.Errorf("outcome %s", last.Outcome)
	}
}

func TestResultFileThatIsWrittenInPlace(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	file, err := os.Create(p.path("result.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, part := range []string{`{"par`, `ts":`, `[1,2`, `,3]}`} {
		if _, err := file.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	r := port.AwaitReport(hasResult("parts"))
	if want := `{"content":[],"structuredContent":{"parts":[1,2,3]}}`; string(r.Result) != want {
		t.Errorf("result %s", r.Result)
	}
}

func TestLastLook(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	p.task("state", "done").want(0, "", "")
	p.put(`{"last":true}`)
	sidecar.terminate()
	if last := port.Last(); !hasResult("last")(last) || last.StateName != "done" {
		t.Errorf("last report %+v", last)
	}
}

func TestResultFileThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		make  func(p *pod) error
		words string
	}{
		"not whole":     {func(p *pod) error { return os.WriteFile(p.path("result.json"), []byte(`{"a":NaN}`), 0o644) }, "is not JSON"},
		"no object":     {func(p *pod) error { return os.WriteFile(p.path("result.json"), []byte(`[1]`), 0o644) }, "must be a JSON object"},
		"wrong content": {func(p *pod) error { return os.WriteFile(p.path("result.json"), []byte(`{"content":[1]}`), 0o644) }, "content[0] must be an object"},
		"link":          {func(p *pod) error { return os.Symlink(p.port.TokenFile, p.path("result.json")) }, "is a symbolic link"},
		"folder":        {func(p *pod) error { return os.Mkdir(p.path("result.json"), 0o755) }, "is not a file"},
		"too large": {func(p *pod) error {
			return os.WriteFile(p.path("result.json"), []byte(`{"a":"`+strings.Repeat("x", 1<<20)+`"}`), 0o644)
		}, "has 1048584 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			port := fakeport.New(t)
			p := newPod(t, port)
			sidecar := p.sidecar()
			if err := test.make(p); err != nil {
				t.Fatal(err)
			}
			sidecar.terminate()
			last := port.Last()
			if !hasResult(test.words)(last) || strings.Contains(string(last.Result), fakeport.Token) {
				t.Errorf("last report %s %s, want %q", last.Outcome, last.Result, test.words)
			}
			if size := last.ResultSize; (size == 1048584) != (name == "too large") {
				t.Errorf("size %d", size)
			}
			if isError := strings.Contains(string(last.Result), `"isError":true`); isError == (name == "too large") {
				t.Errorf("result %s", last.Result)
			}
		})
	}
}

func TestResultFileThatTheBridgeRefuses(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	port.Refuse(func(r report.Report) (int, string) {
		if strings.Contains(string(r.Result), `"structuredContent":`) {
			return http.StatusUnprocessableEntity, "result.structuredContent is not wanted"
		}
		return 0, ""
	})
	p.put(`{"a":1}`)
	sidecar.terminate()
	if last := port.Last(); !hasResult("result.structuredContent is not wanted")(last) {
		t.Errorf("last report %s; said %s; printed %s", last.Result, sidecar.errOut.String(), sidecar.out.String())
	}
}

func TestBridgeComesBackForTheLastReport(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	port.Stop()
	p.put(`{"kept":true}`)
	done := make(chan struct{})
	go func() { defer close(done); sidecar.terminate() }()
	fakeport.Await(t, "the last look", func() bool { return journalHas(p, "kept") })
	port.Start()
	<-done
	if !hasResult("kept")(port.Last()) {
		t.Errorf("last report %s", port.Last().Result)
	}
}

func journalHas(p *pod, text string) bool {
	state, err := os.ReadFile(p.path("run/journal"))
	return err == nil && strings.Contains(string(state), text)
}

// The bridge stays away: what it does not have stands in the log, as one line, and the sidecar ends well all the same.
func TestBridgeStaysAway(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	p.task("result", "--text", "first").want(0, "", "")
	port.Stop()
	p.put(`{"kept":true}`)
	sidecar.terminate()
	if n := strings.Count(sidecar.out.String(), "\n"); n != 1 {
		t.Fatalf("printed %d lines: %s", n, sidecar.out.String())
	}
	var line map[string]report.Report
	if err := json.Unmarshal(sidecar.out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if r := line["mcptask.dev/report"]; !hasResult("kept")(r) || r.Sequence <= port.Last().Sequence {
		t.Errorf("printed %s", sidecar.out.String())
	}
}

func TestNothingIsPrintedWithoutNeed(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	p.task("result", "--text", "x").want(0, "", "")
	port.Stop()
	sidecar.terminate()
	if sidecar.out.Len() > 0 {
		t.Errorf("printed %s", sidecar.out.String())
	}
}
