package results

import (
	"crypto/sha256"
	"encoding/hex"
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
		`{"content":[{"type":"image","data":"AA=="}],"structuredContent":{"n":null,"t":"<&>"},"_meta":{"k":1}}`: `{"_meta":{"k":1,"mcptask.dev/exitCode":3},"content":[{"type":"image","data":"AA=="},` +
			`{"type":"text","text":"The tool handed over this result and then ended with exit code 3."}],"isError":true,"structuredContent":{"n":null,"t":"<&>"}}`,
		`{"_meta":null}`: `{"_meta":{"mcptask.dev/exitCode":3},"content":[{"type":"text","text":"The tool handed over this result and then ended with exit code 3."}],"isError":true}`,
	} {
		given := reported(raw)
		got, err := Reported(&decide.Output{ExitCode: 3, Reported: given})
		if err != nil || string(got.Inline.Raw) != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, got.Inline.Raw, want)
		}
		if hash := sha256.Sum256([]byte(want)); got.SHA256 != hex.EncodeToString(hash[:]) {
			t.Errorf("sha256 %s", got.SHA256)
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
