package wire

import (
	"encoding/json"

	sigsjson "sigs.k8s.io/json"
)

// Capabilities are those of a client that the bridge heeds.
type Capabilities struct {
	// Tasks says that the client declared the tasks extension of 2026-07-28.
	Tasks       bool
	Elicitation Elicitation
}

// Elicitation is what a client can ask its user (2026-07-28, Elicitation, Capabilities).
type Elicitation struct{ Form, URL bool }

// ReadCapabilities reads a client's capabilities, a JSON object. The elicitation capability without a mode means forms.
func ReadCapabilities(raw json.RawMessage) (Capabilities, error) {
	var declared struct {
		Extensions  map[string]json.RawMessage `json:"extensions"`
		Elicitation map[string]json.RawMessage `json:"elicitation"`
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &declared); err != nil {
		return Capabilities{}, err
	}
	c := Capabilities{Tasks: IsObject(declared.Extensions[TasksExtension])}
	if declared.Elicitation != nil {
		c.Elicitation = Elicitation{Form: IsObject(declared.Elicitation["form"]), URL: IsObject(declared.Elicitation["url"])}
		if _, some := declared.Elicitation["url"]; !some {
			c.Elicitation.Form = true
		}
	}
	return c, nil
}

// Can says whether the client can put a question of this mode to its user; a question without a mode is a form.
func (e Elicitation) Can(mode string) bool {
	switch mode {
	case "", ModeForm:
		return e.Form
	case ModeURL:
		return e.URL
	}
	return false
}

// Without is what of these the other does not have.
func (e Elicitation) Without(other Elicitation) Elicitation {
	return Elicitation{Form: e.Form && !other.Form, URL: e.URL && !other.URL}
}

// Modes of a question (Elicitation, Elicitation Requests).
const (
	ModeForm = "form"
	ModeURL  = "url"
)
