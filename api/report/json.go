package report

import (
	"bytes"
	"encoding/json"
	"strings"

	sigsjson "sigs.k8s.io/json"
)

// canonical is what the API server keeps of a JSON text, its numbers 64-bit integers or floats, written compactly, with
// sorted keys and without needless escapes.
func canonical(raw []byte) ([]byte, error) {
	var value any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Same says whether two JSON texts mean the same. Texts that cannot be read are the same only byte for byte.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	left, err := canonical(a)
	if err != nil {
		return false
	}
	right, err := canonical(b)
	return err == nil && bytes.Equal(left, right)
}

// path writes a JSON pointer the way fields are named: /content/0/text is .content[0].text.
func path(pointer string) string {
	var b strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch {
		case token == "":
		case strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		default:
			b.WriteString("." + token)
		}
	}
	return b.String()
}
