package results

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

func reported(raw string) *v1alpha1.TaskResult {
	return &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(raw)}, Size: int64(len(raw)), Truncated: true}
}

func TestReportedResultIsKeptAsItIs(t *testing.T) {
	raw := `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":null}}`
	got, err := Reported(&decide.Output{Succeeded: true, Reported: reported(raw)})
	if err != nil || string(got.Inline.Raw) != raw || got.Size != int64(len(raw)) || !got.Truncated {
		t.Errorf("%v %+v", err, got)
	}
}

func TestReportedResultOfWorkThatFailedSaysSo(t *testing.T) {
	for raw, want := range map[string]string{
		`{"content":[{"type":"image","data":"AA=="}],"structuredContent":{"n":null},"_meta":{"k":1}}`: `{"_meta":{"k":1,"mcptask.dev/exitCode":3},"content":[{"type":"image","data":"AA=="},` +
			`{"type":"text","text":"The tool handed over this result and then ended with exit code 3."}],"isError":true,"structuredContent":{"n":null}}`,
		`{"_meta":null}`: `{"_meta":{"mcptask.dev/exitCode":3},"content":[{"type":"text","text":"The tool handed over this result and then ended with exit code 3."}],"isError":true}`,
	} {
		given := reported(raw)
		got, err := Reported(&decide.Output{ExitCode: 3, Reported: given})
		if err != nil || string(got.Inline.Raw) != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, got.Inline.Raw, want)
		}
		if string(given.Inline.Raw) != raw {
			t.Errorf("the report was changed: %s", given.Inline.Raw)
		}
	}
	for _, raw := range []string{`[]`, `null`, `{"content":{}}`} {
		if got, err := Reported(&decide.Output{ExitCode: 3, Reported: reported(raw)}); err == nil {
			t.Errorf("%s: got %s", raw, got.Inline.Raw)
		}
	}
}

func TestUndeliveredReport(t *testing.T) {
	const line = `{"mcptask.dev/report":{"sequence":7,"stateName":"done","progress":{"current":"3"},"outcome":"result","result":{"content":[],"structuredContent":{"n":3}}}}`
	for name, log := range map[string]string{
		"last line":             "starting\n" + line + "\n",
		"without a line's end":  "starting\n" + line,
		"not the last line":     line + "\nending\n",
		"after an earlier one":  `{"mcptask.dev/report":{"sequence":6,"outcome":"failed","error":{"code":1,"message":"m"}}}` + "\n" + line,
		"before words about it": line + "\nwrote mcptask.dev/report {\n",
	} {
		got := Undelivered(logOf(t, log), "a")
		if got == nil || got.PodUID != "a" || got.Sequence != 7 || got.StateName != "done" || got.Progress.Current != "3" || got.Outcome != "result" ||
			string(got.Result.Inline.Raw) != `{"content":[],"structuredContent":{"n":3}}` {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for name, log := range map[string]string{
		"nothing":           "",
		"other lines":       "starting\n{\"n\":3}\n",
		"no outcome":        `{"mcptask.dev/report":{"sequence":7,"stateName":"done"}}`,
		"unknown outcome":   `{"mcptask.dev/report":{"sequence":7,"outcome":"exploded"}}`,
		"no error":          `{"mcptask.dev/report":{"sequence":7,"outcome":"failed"}}`,
		"result is a list":  `{"mcptask.dev/report":{"sequence":7,"outcome":"result","result":[]}}`,
		"cut in the middle": line[:len(line)-9],
	} {
		if got := Undelivered(logOf(t, log), "a"); got != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestUndeliveredReportFitsATask(t *testing.T) {
	fields := map[string]any{
		"sequence": 7, "stateName": strings.Repeat("é", 100), "progress": map[string]any{"current": "1", "message": strings.Repeat("x", 5000)},
		"outcome": "failed", "error": map[string]any{"code": -32001, "message": strings.Repeat("y", 5000), "data": []int{1}},
	}
	line, err := json.Marshal(map[string]any{reportKey: fields})
	if err != nil {
		t.Fatal(err)
	}
	got := Undelivered(Log{Tail: line}, "a")
	if len(got.StateName) != 64 || len(got.Progress.Message) != 1024 || len(got.Error.Message) != 4096 || got.Error.Data != nil {
		t.Errorf("got %+v", got)
	}
	for code, want := range map[int32]int32{-32001: -32001, 7: 7, -32602: -32602, -32603: -32603, -32600: -32603, -32700: -32603, -32002: -32603, -32042: -32603, -32021: -32603, -32099: -32603, -32000: -32000} {
		if got := ownCode(code); got != want {
			t.Errorf("code %d became %d, want %d", code, got, want)
		}
	}
}

func TestUndeliveredResultIsBounded(t *testing.T) {
	result := map[string]any{"content": []any{
		map[string]any{"type": "text", "text": strings.Repeat("first ", 3000)},
		map[string]any{"type": "image", "data": strings.Repeat("A", 40_000)},
		map[string]any{"type": "text", "text": "the end"},
	}, "structuredContent": map[string]any{"n": 3}, "isError": true}
	line, err := json.Marshal(map[string]any{reportKey: map[string]any{"outcome": "result", "result": result}})
	if err != nil {
		t.Fatal(err)
	}
	got := Undelivered(Log{Tail: line}, "a").Result
	var kept callToolResult
	if err := json.Unmarshal(got.Inline.Raw, &kept); err != nil {
		t.Fatal(err)
	}
	if !got.Truncated || len(got.Inline.Raw) > MaxInlineBytes || got.Size < 50_000 || !kept.IsError || string(kept.StructuredContent) != `{"n":3}` ||
		!strings.HasSuffix(texts(kept), "the end") || !strings.Contains(texts(kept), "is left out") {
		t.Errorf("size %d truncated %v: %.300s", got.Size, got.Truncated, got.Inline.Raw)
	}
}
