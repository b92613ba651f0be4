package results

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// FuzzLog: whatever a tool prints, its result is a CallToolResult within the limit, and says when something was cut.
func FuzzLog(f *testing.F) {
	for _, seed := range []string{
		"hello\n", "{\"a\":1}\nbye\n", "{\"n\":1e400}\n", "\xff\xfe\n", "{\"a\":\"\\ud800\"}\n", "{}{}\n", "[{]}\n", "\r\n\r\n", "{\"mcptask.dev/report\":{\"sequence\":1,\"outcome\":\"failed\",\"error\":{\"message\":\"m\"}}}\n",
	} {
		f.Add([]byte(seed), "message", uint16(4096), int32(0))
		f.Add(bytes.Repeat([]byte(seed), 300), "", uint16(1024), int32(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, message string, limit uint16, exitCode int32) {
		most := int(limit) + 1024 // no tool keeps less
		for _, source := range []v1alpha1.ResultSource{v1alpha1.ResultSourceAuto, v1alpha1.ResultSourceFile, v1alpha1.ResultSourceLog} {
			tail := NewTail(most)
			for rest := text; len(rest) > 0; { // as it comes, in pieces
				n := min(len(rest), 1+len(rest)/3)
				if _, err := tail.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			log := tail.Log()
			if !bytes.HasSuffix(text, log.Tail) || log.Size != int64(len(text)) || len(log.Tail) < min(len(text), most) {
				t.Fatalf("of %d bytes %d are kept", len(text), len(log.Tail))
			}
			kept := Build(source, &decide.Output{Succeeded: exitCode == 0, ExitCode: exitCode}, log, message, most)
			var result callToolResult
			if err := json.Unmarshal(kept.Raw, &result); err != nil || !utf8.Valid(kept.Raw) || len(kept.Raw) > most {
				t.Fatalf("%d bytes, %v: %q", len(kept.Raw), err, kept.Raw)
			}
			if result.IsError != (exitCode != 0) || result.IsError != kept.IsError {
				t.Fatalf("exit code %d: %s", exitCode, kept.Raw)
			}
			if result.StructuredContent != nil && result.StructuredContent[0] != '{' {
				t.Fatalf("structured content %s", result.StructuredContent)
			}
			left, err := Undelivered(log, "pod", most)
			if left != nil && (err != nil || left.PodUID != "pod" || left.Outcome == "") {
				t.Fatalf("the report that was left is %+v, %v", left, err)
			}
		}
	})
}
