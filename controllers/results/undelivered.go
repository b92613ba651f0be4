package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// reportKey is the key of the line in which a sidecar leaves what it could not deliver.
const reportKey = "mcptask.dev/report"

// undelivered is a report as the runtime port takes it, as far as it matters once the work has ended.
type undelivered struct {
	Sequence  int64              `json:"sequence"`
	Progress  *v1alpha1.Progress `json:"progress"`
	StateName string             `json:"stateName"`
	Outcome   string             `json:"outcome"`
	Result    json.RawMessage    `json:"result"`
	Error     *struct {
		Code    int32           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// Undelivered is the report that the sidecar of a Pod left in its log because it could not deliver it; nil where it left none
// that says how the work ended. The log is text that the API server has not checked: what does not fit a task's status is cut.
func Undelivered(log Log, pod types.UID) *v1alpha1.RuntimeReport {
	found := lastReport(log.Tail)
	if found == nil {
		return nil
	}
	report := &v1alpha1.RuntimeReport{
		PodUID: pod, Sequence: max(found.Sequence, 0), Outcome: found.Outcome, Progress: found.Progress, StateName: cutTo(found.StateName, 64),
	}
	if p := report.Progress; p != nil {
		p.Message = cutTo(p.Message, 1024)
	}
	switch {
	case found.Outcome == "cancelled":
	case found.Outcome == "failed" && found.Error != nil:
		report.Error = &v1alpha1.TaskError{Code: ownCode(found.Error.Code), Message: cutTo(found.Error.Message, 4096)}
		if data := found.Error.Data; isObject(data) && len(data) <= MaxInlineBytes {
			report.Error.Data = &runtime.RawExtension{Raw: data}
		}
	case found.Outcome == "result" && isObject(found.Result):
		report.Result = bounded(found.Result)
	default:
		return nil
	}
	return report
}

// lastReport is the last line of a log that is a report.
func lastReport(log []byte) *undelivered {
	lines := bytes.Split(log, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		if !bytes.Contains(lines[i], []byte(reportKey)) {
			continue
		}
		var line struct {
			Report *undelivered `json:"mcptask.dev/report"`
		}
		if err := json.Unmarshal(lines[i], &line); err == nil && line.Report != nil {
			return line.Report
		}
	}
	return nil
}

// bounded is a CallToolResult as far as there is room for it in a task: of one that is too large the structured content, where
// that fits, and the end of the text.
func bounded(raw json.RawMessage) *v1alpha1.TaskResult {
	if len(raw) <= MaxInlineBytes {
		return &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: raw}, Size: int64(len(raw))}
	}
	b := builder{size: int64(len(raw)), cut: true, head: fmt.Sprintf("The tool's result has %d bytes, more than the %d that are kept; what is not here is left out.", len(raw), MaxInlineBytes)}
	var result callToolResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return b.result()
	}
	var text []string
	for _, block := range result.Content {
		if block.Text != "" {
			text = append(text, block.Text)
		}
	}
	b.isError, b.text = result.IsError, []byte(strings.Join(text, "\n"))
	if s := result.StructuredContent; isObject(s) && len(s) <= maxObjectBytes && toolschema.CheckNumbers(s) == nil {
		b.structured = s
	}
	return b.result()
}

// ownCode is the code of an error that a tool may use: those of the protocol are not its own (2026-07-28, basic, error codes).
func ownCode(code int32) int32 {
	switch {
	case code == decide.CodeInvalidParams:
		return code
	case code >= -32099 && code <= -32020, code >= -32603 && code <= -32600, code == -32700, code == -32002, code == -32042:
		return decide.CodeInternalError
	}
	return code
}

func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object != nil
}

// cutTo is the beginning of a text, at most n bytes and whole characters.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
