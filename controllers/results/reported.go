package results

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// NothingHandedOver is the result of work that was to hand over one, ended well and did not.
func NothingHandedOver() *v1alpha1.TaskResult {
	b := builder{head: "The tool ended without handing over a result."}
	return b.result()
}

// Reported is the result that the work handed over. Where the work ended with another exit code than 0 afterwards, it is an error
// of the tool and says so; that may make it a little longer than MaxInlineBytes.
func Reported(out *decide.Output) (*v1alpha1.TaskResult, error) {
	result := out.Reported.DeepCopy()
	if out.Succeeded || result.Inline == nil {
		return result, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result.Inline.Raw, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("the result that the work handed over is not a JSON object: %w", err)
	}
	var content []json.RawMessage
	meta := map[string]json.RawMessage{}
	for name, into := range map[string]any{"content": &content, "_meta": &meta} {
		if raw, ok := fields[name]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, fmt.Errorf("%s of the result that the work handed over: %w", name, err)
			}
		}
	}
	said, err := encode(textContent{Type: "text", Text: fmt.Sprintf("The tool handed over this result and then ended with exit code %d.", out.ExitCode)})
	if err != nil {
		return nil, err
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[MetaExitCode] = json.RawMessage(fmt.Sprint(out.ExitCode))
	for name, value := range map[string]any{"content": append(content, said), "_meta": meta, "isError": true} {
		if fields[name], err = encode(value); err != nil {
			return nil, err
		}
	}
	raw, err := encode(fields)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(raw)
	result.Inline, result.SHA256 = &runtime.RawExtension{Raw: raw}, hex.EncodeToString(hash[:])
	return result, nil
}
