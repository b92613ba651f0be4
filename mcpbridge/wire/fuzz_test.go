package wire

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// FuzzCheckResponse: an answer that is taken is stored and read back, so it must be an object with a known action.
func FuzzCheckResponse(f *testing.F) {
	for _, seed := range []string{`{"action":"accept","content":{"n":1}}`, `{"action":"decline"}`, `{"action":"accept"}`, `{}`, `[`, `"x"`, `{"action":"accept","content":{"n":1e999}}`} {
		f.Add([]byte(seed))
	}
	form := v1alpha1.InputRequest{Key: "k", Params: runtime.RawExtension{Raw: []byte(`{"message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`)}}
	f.Fuzz(func(t *testing.T, response []byte) {
		if !json.Valid(response) || CheckResponse(form, response, "k") != nil {
			return
		}
		action, content := ReadResponse(response)
		switch {
		case action == ActionDecline, action == ActionCancel:
		case action == ActionAccept && IsObject(content):
		default:
			t.Errorf("taken is %s", response)
		}
	})
}

// FuzzDecodeHeader: a value that was encoded comes back.
func FuzzDecodeHeader(f *testing.F) {
	for _, seed := range []string{"", "abc", "=?base64?YQ==?=", "=?base64?*?=", "=?base64?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		decoded, ok := DecodeHeader(value)
		if !ok && decoded == value && value != "" {
			t.Errorf("%q is refused and yet returned", value)
		}
	})
}

// FuzzReadCapabilities: what a client declares is read or refused.
func FuzzReadCapabilities(f *testing.F) {
	for _, seed := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`, `{"elicitation":3}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		c, err := ReadCapabilities(raw)
		if err != nil && c != (Capabilities{}) {
			t.Errorf("refused with %+v", c)
		}
	})
}
