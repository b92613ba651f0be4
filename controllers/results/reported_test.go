package results

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

func reported(raw string) *v1alpha1.TaskResult {
	return &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(raw)}, Size: int64(len(raw)), Truncated: true}
}

func TestReportedResultIsKeptAsItIs(t *testing.T) {
	raw := `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":null}}`
	got, err := Reported(&decide.Output{Succeeded: true, Reported: reported(raw)}, fit.MaxInline)
	if err != nil || string(got.Raw) != raw || got.Size != int64(len(raw)) || !got.Truncated {
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
		got, err := Reported(&decide.Output{ExitCode: 3, Reported: given}, fit.MaxInline)
		if err != nil || string(got.Raw) != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, got.Raw, want)
		}
		if !got.IsError || given.IsError {
			t.Error("it is not said to be an error, or the report was changed")
		}
		if string(given.Inline.Raw) != raw {
			t.Errorf("the report was changed: %s", given.Inline.Raw)
		}
	}
	for _, raw := range []string{`[]`, `null`, `{"content":{}}`} {
		if got, err := Reported(&decide.Output{ExitCode: 3, Reported: reported(raw)}, fit.MaxInline); err == nil {
			t.Errorf("%s: got %s", raw, got.Raw)
		}
	}
}

func TestReportedResultInSecretsSaysThatTheWorkFailed(t *testing.T) {
	given := &v1alpha1.TaskResult{SecretRef: &v1alpha1.SecretReference{Name: "x-0", Parts: 2}, SHA256: "abc", Size: 600_000}
	if got := Stored(&decide.Output{Succeeded: true, Reported: given}); *got.SecretRef != *given.SecretRef || got.IsError || got.ExitCode != nil {
		t.Errorf("got %+v", got)
	}
	got := Stored(&decide.Output{ExitCode: 3, Reported: given})
	if !got.IsError || *got.ExitCode != 3 || got.SecretRef.Parts != 2 || given.IsError {
		t.Errorf("got %+v", got)
	}
	if Stored(&decide.Output{Reported: reported(`{}`)}) != nil {
		t.Error("an inline result is taken for one in Secrets")
	}
}

func TestReportedResultKeepsToTheLimit(t *testing.T) {
	given := reported(`{"content":[{"text":"` + strings.Repeat("x", 9000) + `","type":"text"}]}`)
	got, err := Reported(&decide.Output{Succeeded: true, Reported: given}, 4096)
	if err != nil || len(got.Raw) > 4096 || !got.Truncated || got.Size != given.Size {
		t.Errorf("%v, %d bytes are kept of %d", err, len(got.Raw), got.Size)
	}
}
