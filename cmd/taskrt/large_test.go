package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

// keeps8MB is a tool that keeps as much of a result as any tool may.
const keeps8MB = "MCPTASK_MAX_RESULT_BYTES=8388608"

// awaitLarge waits for a result that the report only names, and returns it.
func awaitLarge(t *testing.T, port *fakeport.Port, text string) string {
	t.Helper()
	r := port.AwaitReport(func(r report.Report) bool { return r.ResultRef != nil && strings.Contains(port.Result(r), text) })
	raw := port.Result(r)
	if r.Outcome != report.OutcomeResult || r.Result != nil || int64(len(raw)) != r.ResultRef.Bytes || !json.Valid([]byte(raw)) {
		t.Errorf("outcome %s, %d bytes, said to be %d", r.Outcome, len(raw), r.ResultRef.Bytes)
	}
	return raw
}

func TestLargeResultsAreHandedOverWhole(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port, keeps8MB)
	p.sidecar()
	for _, size := range []int{20_000, 500_000, 5_000_000} {
		given := fmt.Sprintf(`{"size":%d,"text":"%s"}`, size, strings.Repeat("x", size))
		want := `{"content":[],"structuredContent":` + given + `}`
		mark := fmt.Sprintf(`"size":%d,`, size)

		p.write("cli.json", given)
		p.task("result", "--json", p.path("cli.json")).want(0, "", "")
		if got := awaitLarge(t, port, mark); got != want {
			t.Errorf("with task result: %d bytes, %.100s", len(got), got)
		}
		p.task("result", "--text", "small").want(0, "", "")
		p.put(given)
		if got := awaitLarge(t, port, mark); got != want {
			t.Errorf("with result.json: %d bytes, %.100s", len(got), got)
		}
	}
	p.task("result", "--text", "small").want(0, "", "")
	if files, err := filepath.Glob(p.path("run/result-*")); err != nil || len(files) > 0 {
		t.Errorf("results that were replaced are left: %v, %v", files, err)
	}
}

func TestACallResultIsHandedOverAsItIs(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	pages := `{"pages": ["` + strings.Repeat("y", 30_000) + `"]}`
	quoted, err := json.Marshal(pages)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		given, want string
		isError     bool
	}{
		"a text that only repeats": {` {"content":[{"type":"text","text":` + string(quoted) + `}, {"type":"text","text":"b"}],"structuredContent":` + pages + `}`,
			`{"content":[{"type":"text","text":"b"}],"structuredContent":` + pages + `}`, false},
		"the same at the end": {`{"structuredContent":` + pages + `, "content":[{"type":"text","text":"b"},{"text":` + string(quoted) + `,"type":"text"}]}` + "\n",
			`{"structuredContent":` + pages + `, "content":[{"type":"text","text":"b"}]}`, false},
		"an error": {`{"content":[{"type":"text","text":"` + strings.Repeat("z", 30_000) + `"}],"isError":true}`, "", true},
	} {
		if tc.want == "" {
			tc.want = tc.given
		}
		p.put(tc.given)
		r := port.AwaitReport(func(r report.Report) bool { return r.ResultRef != nil && port.Result(r) == tc.want })
		if r.ResultRef.IsError != tc.isError {
			t.Errorf("%s: isError %v", name, r.ResultRef.IsError)
		}
	}
}

// Whatever a program puts out, its task gets a result.
func TestNoResultIsTooOdd(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	for name, content := range map[string][]byte{
		"one line of 10 MB": fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 10<<20)),
		"50 MB":             fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 50<<20)),
	} {
		for _, way := range []string{"cli", "file"} {
			p.task("state", "between").want(0, "", "")
			p.task("result", "--text", "between").want(0, "", "")
			if way == "cli" {
				p.write("big.json", string(content))
				p.task("result", "--json", p.path("big.json")).want(0, "", "")
			} else {
				p.put(string(content))
			}
			r := port.AwaitReport(func(r report.Report) bool { return r.ResultSize == int64(len(content)) })
			for _, words := range []string{fmt.Sprintf("%d bytes, SHA-256 ", len(content)), "left out", "result.maxBytes"} {
				if !strings.Contains(string(r.Result), words) {
					t.Errorf("%s, %s: %.400s lacks %q", name, way, r.Result, words)
				}
			}
		}
	}
	for name, text := range map[string]string{"small": "a\xff\xfeb", "large": strings.Repeat("a\xff\xc3b", 10_000)} {
		p.put(`{"name":"` + name + `","text":"` + text + `"}`)
		r := port.AwaitReport(func(r report.Report) bool { return strings.Contains(port.Result(r), `"name":"`+name) })
		if got := port.Result(r); !strings.Contains(got, "a\uFFFD\uFFFDb") || !json.Valid([]byte(got)) {
			t.Errorf("%s: invalid UTF-8 became %.100q", name, got)
		}
	}
	lines := `{"lines":[` + strings.Repeat("\"line\",\n", 100_000) + `"end"]}`
	p.put(lines)
	if got := awaitLarge(t, port, `"lines"`); got != `{"content":[],"structuredContent":`+lines+`}` {
		t.Errorf("100,000 lines became %.100s", got)
	}
}

func TestALargeResultSurvivesARestart(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	port.Stop()
	p.put(`{"kept":"` + strings.Repeat("x", 100_000) + `"}`)
	fakeport.Await(t, "the result to be taken", func() bool { return journalHas(p, "nextOutcome") })
	sidecar.kill()
	p.write("run/result-stale", "of a sidecar before")
	p.sidecar()
	port.Start()
	awaitLarge(t, port, `"kept"`)
	if _, err := os.Stat(p.path("run/result-stale")); !os.IsNotExist(err) {
		t.Errorf("what nobody needs is left: %v", err)
	}
}

func TestALargeResultThatIsNotDeliveredIsPrinted(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	sidecar := p.sidecar()
	port.Stop()
	p.put("{\n  \"kept\":\r\n\"" + strings.Repeat("x", 100_000) + "\"}\n")
	sidecar.terminate()
	if n := bytes.Count(sidecar.out.Bytes(), []byte("\n")); n != 1 {
		t.Fatalf("printed %d lines", n)
	}
	var line map[string]report.Report
	if err := json.Unmarshal(sidecar.out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if r := line["mcptask.dev/report"]; r.ResultRef != nil || !hasResult(`{"content":[],"structuredContent":{`)(r) || len(r.Result) < 100_000 {
		t.Errorf("printed %.300s", sidecar.out.String())
	}
}

func TestALargeResultThatTheBridgeRefusesLeavesWords(t *testing.T) {
	t.Parallel()
	port := fakeport.New(t)
	p := newPod(t, port)
	p.sidecar()
	port.Refuse(func(r report.Report) (int, string) {
		if r.ResultRef != nil {
			return http.StatusUnprocessableEntity, "the cluster does not take it now"
		}
		return 0, ""
	})
	p.write("big.json", `{"a":"`+strings.Repeat("x", 100_000)+`"}`)
	p.task("result", "--json", p.path("big.json")).want(1, "", "the cluster does not take it now")
	r := port.AwaitReport(hasResult("could not be stored: the cluster does not take it now"))
	if r.ResultSize < 100_000 || strings.Contains(string(r.Result), "isError") {
		t.Errorf("size %d, %s", r.ResultSize, r.Result)
	}
}
