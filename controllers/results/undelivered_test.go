package results

import (
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/report/fit"
)

func TestUndeliveredReport(t *testing.T) {
	const line = `{"mcptask.dev/report":{"sequence":7,"stateName":"done","progress":{"current":"3"},"outcome":"result","result":{"content":[],"structuredContent":{"n":null}}}}`
	for name, log := range map[string]string{
		"last line":             "starting\n" + line + "\n",
		"without a line's end":  "starting\n" + line,
		"not the last line":     line + "\nending\n",
		"after an earlier one":  `{"mcptask.dev/report":{"sequence":6,"outcome":"failed","error":{"code":1,"message":"m"}}}` + "\n" + line,
		"before words about it": line + "\nwrote mcptask.dev/report {\n",
	} {
		got, err := Undelivered(logOf(t, log), "a", fit.MaxInline)
		if err != nil || got == nil || got.PodUID != "a" || got.Sequence != 7 || got.StateName != "done" || got.Progress.Current != "3" || got.Outcome != "result" ||
			string(got.Result.Inline.Raw) != `{"content":[],"structuredContent":{"n":null}}` {
			t.Errorf("%s: got %v, %+v", name, err, got)
		}
	}
	for name, log := range map[string]string{
		"nothing":           "",
		"other lines":       "starting\n{\"n\":3}\n",
		"no outcome":        `{"mcptask.dev/report":{"sequence":7,"stateName":"done"}}`,
		"cut in the middle": line[:len(line)-9],
	} {
		if got, err := Undelivered(logOf(t, log), "a", fit.MaxInline); got != nil || err != nil {
			t.Errorf("%s: got %v, %+v", name, err, got)
		}
	}
	if got, err := Undelivered(logOf(t, `{"mcptask.dev/report":{"sequence":7,"outcome":"failed","error":{"code":-32002,"message":"m"}}}`), "a", fit.MaxInline); got != nil || err == nil || !strings.Contains(err.Error(), "error.code") {
		t.Errorf("a report that the runtime port would refuse: %v, %+v", err, got)
	}
}
