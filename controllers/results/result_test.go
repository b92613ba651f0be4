package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// logOf reads a text the way the log of a container is read.
func logOf(t *testing.T, text string) Log {
	t.Helper()
	w := NewTail(WorkTail)
	if _, err := io.Copy(w, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return Log{Tail: w.bytes(), Size: w.size}
}

func build(t *testing.T, source v1alpha1.ResultSource, out decide.Output, log, message string) (callToolResult, *v1alpha1.TaskResult) {
	t.Helper()
	r := Build(source, &out, logOf(t, log), message)
	if len(r.Inline.Raw) > MaxInlineBytes {
		t.Fatalf("%d bytes inline", len(r.Inline.Raw))
	}
	var got callToolResult
	if err := json.Unmarshal(r.Inline.Raw, &got); err != nil {
		t.Fatal(err)
	}
	return got, r
}

func texts(r callToolResult) string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "|")
}

func TestResultOfSuccess(t *testing.T) {
	for name, tc := range map[string]struct {
		source       v1alpha1.ResultSource
		log, message string
		text, object string
	}{
		"text":                   {v1alpha1.ResultSourceAuto, "hello\nworld\n", "", "hello\nworld", ""},
		"last object":            {v1alpha1.ResultSourceAuto, "{\"a\":1}\nseen 3\n{\"n\":3}\n", "", "{\"a\":1}\nseen 3", `{"n":3}`},
		"object, then a line":    {v1alpha1.ResultSourceAuto, "{\"n\":3}\r\nbye\n", "", "bye", `{"n":3}`},
		"only an object":         {v1alpha1.ResultSourceAuto, `{"n":3}`, "", "", `{"n":3}`},
		"arrays are text":        {v1alpha1.ResultSourceAuto, "[1,2]\n", "", "[1,2]", ""},
		"broken object":          {v1alpha1.ResultSourceAuto, "{\"n\":}\n", "", "{\"n\":}", ""},
		"log only":               {v1alpha1.ResultSourceLog, "a\n{\"n\":3}\n", "", "a\n{\"n\":3}", ""},
		"file":                   {v1alpha1.ResultSourceFile, "noise\n", `{"n":3}`, "", `{"n":3}`},
		"file of text":           {v1alpha1.ResultSourceFile, "noise\n", "done", "done", ""},
		"no log, then a message": {v1alpha1.ResultSourceAuto, "", "done", "done", ""},
		"number out of range":    {v1alpha1.ResultSourceAuto, "{\"x\":1e400}\n", "", "The tool's structured result is shown as text: /x: this number cannot be kept exactly; use a string.|{\"x\":1e400}", ""},
		"nothing":                {v1alpha1.ResultSourceAuto, "", "", "", ""},
		"invalid UTF-8":          {v1alpha1.ResultSourceAuto, "a\xff\xfeb\n", "", "a\uFFFDb", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, r := build(t, tc.source, decide.Output{Succeeded: true}, tc.log, tc.message)
			if texts(got) != tc.text || string(got.StructuredContent) != tc.object || got.IsError || r.Truncated || got.Content == nil {
				t.Errorf("got %s, truncated %v", r.Inline.Raw, r.Truncated)
			}
		})
	}
}

func TestResultOfFailureHasTextAndExitCode(t *testing.T) {
	got, r := build(t, v1alpha1.ResultSourceAuto, decide.Output{ExitCode: 3}, "no such host\n", "")
	if !got.IsError || texts(got) != "The tool ended with exit code 3.|no such host" || got.Meta[MetaExitCode] != 3.0 {
		t.Errorf("got %s", r.Inline.Raw)
	}
	got, _ = build(t, v1alpha1.ResultSourceAuto, decide.Output{ExitCode: 137, Cause: "the tool was killed"}, "", "")
	if texts(got) != "The tool was killed (exit code 137)." {
		t.Errorf("got %q", texts(got))
	}
}

func TestResultSaysWhatWasCut(t *testing.T) {
	for name, log := range map[string]string{
		"many lines":     strings.Repeat("0123456789\n", 100_000),
		"one long line":  strings.Repeat("x", 10<<20),
		"binary":         string(bytes.Repeat([]byte{0, 1, 2, 0xff}, 1<<20)),
		"just too large": strings.Repeat("x", MaxInlineBytes),
		"quotes":         strings.Repeat(`"`, WorkTail),
	} {
		t.Run(name, func(t *testing.T) {
			got, r := build(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, log, "")
			if !r.Truncated || r.Size != int64(len(log)) || !strings.Contains(texts(got), fmt.Sprintf("The output had %d bytes", len(log))) {
				t.Errorf("truncated %v, size %d, text %.200q", r.Truncated, r.Size, texts(got))
			}
			if len(r.Inline.Raw) < MaxInlineBytes/2 {
				t.Errorf("only %d bytes are kept", len(r.Inline.Raw))
			}
		})
	}
}

func TestResultKeepsTheObjectBeforeTheText(t *testing.T) {
	object := `{"items":"` + strings.Repeat("y", 10_000) + `"}`
	got, r := build(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, strings.Repeat("log line\n", 50_000)+object+"\n", "")
	if string(got.StructuredContent) != object || !r.Truncated {
		t.Errorf("truncated %v, %.100s", r.Truncated, r.Inline.Raw)
	}
	got, r = build(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, `{"items":"`+strings.Repeat("y", 20_000)+"\"}\n", "")
	if got.StructuredContent != nil || !r.Truncated || !strings.Contains(texts(got), "20012 bytes") {
		t.Errorf("truncated %v, %s", r.Truncated, texts(got))
	}
}
