package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// logOf reads a text the way the log of a container is read.
func logOf(t *testing.T, text string) Log {
	t.Helper()
	return tailOf(t, text, 4*fit.MaxInline)
}

func tailOf(t *testing.T, text string, keep int) Log {
	t.Helper()
	w := NewTail(keep)
	if _, err := io.Copy(w, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return w.Log()
}

func build(t *testing.T, source v1alpha1.ResultSource, out decide.Output, log, message string) (callToolResult, *fit.Kept) {
	t.Helper()
	return buildIn(t, source, out, logOf(t, log), message, fit.MaxInline)
}

func buildIn(t *testing.T, source v1alpha1.ResultSource, out decide.Output, log Log, message string, limit int) (callToolResult, *fit.Kept) {
	t.Helper()
	r := Build(source, &out, log, message, limit)
	if len(r.Raw) > limit {
		t.Fatalf("%d bytes", len(r.Raw))
	}
	var got callToolResult
	if err := json.Unmarshal(r.Raw, &got); err != nil {
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
		"object, invalid UTF-8":  {v1alpha1.ResultSourceAuto, "{\"a\":\"\xff\"}\n", "", "", "{\"a\":\"\uFFFD\"}"},
		"invalid UTF-8":          {v1alpha1.ResultSourceAuto, "a\xff\xfeb\n", "", "a\uFFFDb", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, r := build(t, tc.source, decide.Output{Succeeded: true}, tc.log, tc.message)
			if texts(got) != tc.text || string(got.StructuredContent) != tc.object || got.IsError || r.Truncated || got.Content == nil {
				t.Errorf("got %s, truncated %v", r.Raw, r.Truncated)
			}
		})
	}
}

func TestResultOfFailureHasTextAndExitCode(t *testing.T) {
	got, r := build(t, v1alpha1.ResultSourceAuto, decide.Output{ExitCode: 3}, "no such host\n", "")
	if !got.IsError || texts(got) != "The tool ended with exit code 3.|no such host" || got.Meta[MetaExitCode] != 3.0 {
		t.Errorf("got %s", r.Raw)
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
		"just too large": strings.Repeat("x", fit.MaxInline),
		"quotes":         strings.Repeat(`"`, 4*fit.MaxInline),
	} {
		t.Run(name, func(t *testing.T) {
			got, r := build(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, log, "")
			if !r.Truncated || r.Size != int64(len(log)) || !strings.Contains(texts(got), fmt.Sprintf("The output had %d bytes with the SHA-256 %x; only its end is kept here. ", len(log), sha256.Sum256([]byte(log)))+fit.Advice) {
				t.Errorf("truncated %v, size %d, text %.200q", r.Truncated, r.Size, texts(got))
			}
			if len(r.Raw) < fit.MaxInline/2 {
				t.Errorf("only %d bytes are kept", len(r.Raw))
			}
		})
	}
}

func TestResultKeepsTheObjectBeforeTheText(t *testing.T) {
	object := `{"items":"` + strings.Repeat("y", 10_000) + `"}`
	got, r := build(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, strings.Repeat("log line\n", 50_000)+object+"\n", "")
	if string(got.StructuredContent) != object || !r.Truncated {
		t.Errorf("truncated %v, %.100s", r.Truncated, r.Raw)
	}
	got, r = build(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, `{"items":"`+strings.Repeat("y", 20_000)+"\"}\n", "")
	if got.StructuredContent != nil || !r.Truncated || !strings.Contains(texts(got), "20012 bytes") {
		t.Errorf("truncated %v, %s", r.Truncated, texts(got))
	}
}

func TestResultFillsTheRoomThatItsToolGivesIt(t *testing.T) {
	const limit = 1 << 20
	for name, tc := range map[string]struct {
		log   string
		whole bool
	}{
		"5 KB":              {strings.Repeat("0123456789\n", 500), true},
		"500 KB":            {strings.Repeat("0123456789\n", 45_000), true},
		"5 MB":              {strings.Repeat("0123456789\n", 450_000), false},
		"50 MB":             {strings.Repeat("0123456789\n", 4_500_000), false},
		"100,000 lines":     {strings.Repeat("x\n", 100_000), true},
		"one line of 10 MB": {strings.Repeat("y", 10<<20), false},
		"binary":            {strings.Repeat("\x00\x01\x02\xff", 1<<20), false},
		"invalid UTF-8":     {strings.Repeat("a\xff\xfe\xc3", 100_000), true},
	} {
		t.Run(name, func(t *testing.T) {
			got, r := buildIn(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, tailOf(t, tc.log, limit+64<<10), "", limit)
			if r.Truncated == tc.whole || r.Size != int64(len(tc.log)) {
				t.Errorf("truncated %v, size %d of %d", r.Truncated, r.Size, len(tc.log))
			}
			if !tc.whole && len(r.Raw) < limit-1024 {
				t.Errorf("only %d bytes are kept", len(r.Raw))
			}
			if said := strings.Contains(texts(got), fit.Advice); said == tc.whole {
				t.Errorf("it says %.500q", texts(got))
			}
		})
	}
	object := `{"items":"` + strings.Repeat("y", 700_000) + `"}`
	got, r := buildIn(t, v1alpha1.ResultSourceAuto, decide.Output{Succeeded: true}, tailOf(t, strings.Repeat("log line\n", 90_000)+object+"\n", limit+64<<10), "", limit)
	if string(got.StructuredContent) != object || !r.Truncated || strings.Contains(texts(got), "yyy") {
		t.Errorf("truncated %v, %.100s", r.Truncated, r.Raw)
	}
}

func TestTheEndOfALogTakesLittleMemory(t *testing.T) {
	asked := 0
	w := newTail(1<<20, func(large bool) error {
		if large {
			asked++
		}
		return nil
	})
	for range 50 << 5 {
		if _, err := w.Write(bytes.Repeat([]byte("z"), 32<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if log := w.Log(); asked != 1 || cap(w.buf) > 1<<20+1<<18 || log.Size != 50<<20 || len(log.Tail) != 1<<20 {
		t.Errorf("asked %d times for %d bytes; kept %d of %d", asked, cap(w.buf), len(log.Tail), log.Size)
	}
	small := newTail(1<<20, func(large bool) error {
		if large {
			t.Error("a small log asks for room")
		}
		return nil
	})
	if _, err := small.Write(make([]byte, SmallTail)); err != nil {
		t.Error(err)
	}
	full := newTail(1<<20, func(bool) error { return io.ErrNoProgress })
	if _, err := full.Write(make([]byte, SmallTail+1)); err != io.ErrNoProgress {
		t.Errorf("without room: %v", err)
	}
}
