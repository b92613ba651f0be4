package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/report"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// reportKey is the key of the line in which a sidecar leaves what it may not have delivered: {"mcptask.dev/report":{…}}.
const reportKey = "mcptask.dev/report"

// Undelivered is the report that the sidecar of a Pod left in its log, read as the runtime port reads it; nil where it left none
// that says how the work ended. Of a result in it limit bytes are kept.
func Undelivered(log Log, pod types.UID, limit int) (*v1alpha1.RuntimeReport, error) {
	text := lastReport(log.Tail)
	if text == nil {
		return nil, nil
	}
	left, err := report.Read(text, limit)
	if err != nil {
		return nil, fmt.Errorf("the report that the sidecar left in its log: %w", err)
	}
	if left.Outcome == "" {
		return nil, nil
	}
	if left.Result != nil && left.Result.Inline == nil {
		return nil, errors.New("the report that the sidecar left in its log names a result that is somewhere else")
	}
	left.PodUID = pod
	return left, nil
}

// lastReport is the last report in a log.
func lastReport(log []byte) json.RawMessage {
	lines := bytes.Split(log, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		if !bytes.Contains(lines[i], []byte(reportKey)) {
			continue
		}
		var line map[string]json.RawMessage
		if err := json.Unmarshal(lines[i], &line); err == nil && line[reportKey] != nil {
			return line[reportKey]
		}
	}
	return nil
}
