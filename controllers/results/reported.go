package results

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// NothingHandedOver is the result of work that was to hand over one, ended well and did not.
func NothingHandedOver(limit int) *fit.Kept {
	b := builder{head: "The tool ended without handing over a result.", limit: limit}
	return b.result()
}

// Stored is the result that the work handed over and that stands in Secrets; nil where it does not. Where the work ended with another
// exit code than 0 afterwards, it is an error of the tool; who shows it says so.
func Stored(out *decide.Output) *v1alpha1.TaskResult {
	if out.Reported.SecretRef == nil {
		return nil
	}
	result := out.Reported.DeepCopy()
	if !out.Succeeded {
		result.IsError, result.ExitCode = true, &out.ExitCode
	}
	return result
}

// Reported is the result that the work handed over, in at most limit bytes. Where the work ended with another exit code than 0
// afterwards, it is an error of the tool and says so; that may make it a little longer.
func Reported(out *decide.Output, limit int) (*fit.Kept, error) {
	given := out.Reported
	if given.Inline == nil {
		return nil, errors.New("the result that the work handed over is not there")
	}
	kept := &fit.Kept{Raw: given.Inline.Raw, Size: given.Size, Truncated: given.Truncated, IsError: given.IsError}
	if len(kept.Raw) > limit {
		cut, err := fit.Result(kept.Raw, limit)
		if err != nil {
			return nil, err
		}
		kept.Raw, kept.Truncated = cut.Raw, true
	}
	if out.Succeeded {
		return kept, nil
	}
	var err error
	if kept.Raw, err = withExitCode(kept.Raw, out.ExitCode); err != nil {
		return nil, err
	}
	kept.IsError = true
	return kept, nil
}

func withExitCode(raw []byte, code int32) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
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
	said, err := encode(textContent{Type: "text", Text: fmt.Sprintf("The tool handed over this result and then ended with exit code %d.", code)})
	if err != nil {
		return nil, err
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[MetaExitCode] = json.RawMessage(fmt.Sprint(code))
	for name, value := range map[string]any{"content": append(content, said), "_meta": meta, "isError": true} {
		if fields[name], err = encode(value); err != nil {
			return nil, err
		}
	}
	return encode(fields)
}
