package question

import (
	"encoding/json"
	"strings"
	"testing"

	bridge "github.com/mcptask/mcptask/api/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

func form(properties string) string { return `{"type":"object","properties":` + properties + `}` }

func TestSchemas(t *testing.T) {
	for schema, words := range map[string]string{
		form(`{}`): "",
		form(`{"a":{"type":"string","title":"A","minLength":1,"maxLength":5,"format":"email","default":"a"}}`):                                          "",
		form(`{"a":{"type":"integer","minimum":0,"maximum":10,"default":3},"b":{"type":"number","default":0.5},"c":{"type":"boolean","default":true}}`): "",
		form(`{"a":{"type":"string","enum":["x","y"],"enumNames":["X","Y"],"default":"x"}}`):                                                            "",
		form(`{"a":{"type":"string","oneOf":[{"const":"x","title":"X"}]}}`):                                                                             "",
		form(`{"a":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]},"default":["x"]}}`):                             "",
		form(`{"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}}`):                                                                    "",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`:             "",
		form(`{"a":{"type":"string","pattern":"^a"}}`):                                                                                                  "requestedSchema.properties.a.pattern is not part of an elicitation schema",
		`{"type":"object","properties":{},"additionalProperties":false}`:                                                                                "requestedSchema.additionalProperties is not part of an elicitation schema",
		`{"type":"object","properties":{},"title":"T"}`:                                                                                                 "requestedSchema.title is not part of an elicitation schema",
		`{"type":"object","properties":{},"$schema":"https://example.com/own"}`:                                                                         "requestedSchema.$schema must be https://json-schema.org/draft/2020-12/schema or",
		form(`{"a":{"type":"string","enum":["x",null]}}`):                                                                                               "requestedSchema.properties.a.enum must be an array of strings",
		form(`{"a":{"type":"string","enum":["x"],"enumNames":[null]}}`):                                                                                 "requestedSchema.properties.a.enumNames must be an array",
		form(`{"a":{"type":"string","oneOf":[{"Const":"x","title":"X"}]}}`):                                                                             "requestedSchema.properties.a.oneOf[0].Const is not part",
		form(`{"a":{"type":"string","oneOf":[null]}}`):                                                                                                  "requestedSchema.properties.a.oneOf[0] must be a JSON object",
		form(`{"a":{"type":"number","maximum":1e400}}`):                                                                                                 "requestedSchema.properties.a.maximum must be a number that 64 bits can hold",
		form(`{"a":{"type":"number","minimum":1e-400}}`):                                                                                                "requestedSchema.properties.a.minimum must be a number that 64 bits",
		form(`{"a":{"type":"integer","default":12345678901234567891}}`):                                                                                 "requestedSchema.properties.a.default must be a number that 64 bits",
		form(`{"a":{"type":"number","default":null}}`):                                                                                                  "requestedSchema.properties.a.default must be a number",
		form(`{"a":{"type":"number","default":0.0,"minimum":-1.5e3,"maximum":9223372036854775807}}`):                                                    "",
		`[]`:                            "requestedSchema must be a JSON object",
		`{"type":`:                      "requestedSchema is not JSON",
		`{"properties":{}}`:             `requestedSchema.type must be "object"`,
		`{"type":"object"}`:             "requestedSchema.properties is missing",
		`{"type":"object","anyOf":[]}`:  "requestedSchema.anyOf is not part of an elicitation schema",
		form(`{"a":true}`):              "requestedSchema.properties.a must be a JSON object",
		form(`{"a":{}}`):                "requestedSchema.properties.a.type must be",
		form(`{"a":{"type":"object"}}`): "requestedSchema.properties.a.type must be",
		form(`{"a":{"type":"string","properties":{}}}`):                                       "requestedSchema.properties.a.properties is not part",
		form(`{"a":{"type":"string","format":"ipv4"}}`):                                       "requestedSchema.properties.a.format must be email",
		form(`{"a":{"type":"string","minLength":3,"maxLength":1}}`):                           "requestedSchema.properties.a.minLength is larger than maxLength",
		form(`{"a":{"type":"string","maxLength":-1}}`):                                        "requestedSchema.properties.a.maxLength must be a whole number",
		form(`{"a":{"type":"string","enum":["x"],"default":"z"}}`):                            "requestedSchema.properties.a.default must be one of the choices",
		form(`{"a":{"type":"string","enum":[]}}`):                                             "requestedSchema.properties.a.enum must be an array of strings",
		form(`{"a":{"type":"string","enum":["x"],"oneOf":[]}}`):                               "requestedSchema.properties.a must have either enum or oneOf",
		form(`{"a":{"type":"string","oneOf":[{"const":"x"}]}}`):                               "requestedSchema.properties.a.oneOf[0] must have const and title",
		form(`{"a":{"type":"integer","default":1.5}}`):                                        "requestedSchema.properties.a.default must be a whole number",
		form(`{"a":{"type":"number","minimum":3,"maximum":1}}`):                               "requestedSchema.properties.a.minimum is larger",
		form(`{"a":{"type":"number","minimum":"3"}}`):                                         "requestedSchema.properties.a.minimum must be a number",
		form(`{"a":{"type":"boolean","default":"yes"}}`):                                      "requestedSchema.properties.a.default must be true or false",
		form(`{"a":{"type":"array"}}`):                                                        "requestedSchema.properties.a.items is missing",
		form(`{"a":{"type":"array","items":{"type":"object"}}}`):                              "requestedSchema.properties.a.items.type must be",
		form(`{"a":{"type":"array","items":{"type":"string"}}}`):                              "requestedSchema.properties.a.items must have either enum or anyOf",
		form(`{"a":{"type":"string","title":1}}`):                                             "requestedSchema.properties.a.title must be a string",
		`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["b"]}`:            `requestedSchema.required names "b"`,
		`{"type":"object","properties":{"a":{"type":"boolean"}},"required":"a"}`:              "requestedSchema.required must be an array",
		form(`{"a":{"type":"array","items":{"type":"string","enum":["x"]},"default":["y"]}}`): `requestedSchema.properties.a.default has "y"`,
	} {
		p := Params{Message: "m", RequestedSchema: json.RawMessage(schema)}
		check(t, schema, p.Check([]string{"form"}), words)
		if words == "" {
			theBridgeTakes(t, p)
		}
	}
}

func TestParams(t *testing.T) {
	empty := json.RawMessage(form(`{}`))
	for words, p := range map[string]Params{
		"message is missing":             {RequestedSchema: empty},
		"requestedSchema is missing":     {Message: "m"},
		"mode is \"sms\"":                {Mode: "sms", Message: "m"},
		"elicitationId must be absent":   {Message: "m", RequestedSchema: empty, ElicitationID: "x"},
		"url must be absent":             {Mode: Form, Message: "m", URL: "https://x.example"},
		"requestedSchema must be absent": {Message: "m", URL: "https://x.example", RequestedSchema: empty},
		"url must begin with https":      {Message: "m", URL: "http://x.example"},
		"url must be an absolute https":  {Message: "m", URL: "/pay"},
		"url must not hold a user name":  {Message: "m", URL: "https://a:b@x.example"},
		"url is missing":                 {Mode: URL, Message: "m"},
		"the question has":               {Message: strings.Repeat("x", 17<<10), RequestedSchema: empty},
	} {
		check(t, words, p.Check([]string{"form", "url"}), words)
	}
	for _, address := range []string{"https://x.example/a?b=c", "http://localhost:8080", "http://127.0.0.1", "http://[::1]:1"} {
		p := Params{Message: "m", URL: address}
		check(t, address, p.Check([]string{"url"}), "")
		theBridgeTakes(t, p)
	}
	p := Params{Message: "m", URL: "https://x.example"}
	check(t, "url", p.Check(nil), "this tool may not ask a url question: spec.runtime.asks of its McpTool must contain URL")
}

func check(t *testing.T, what string, err error, words string) {
	t.Helper()
	if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
		t.Errorf("%s: %v, want %q", what, err, words)
	}
}

// Keys must stay as they are: an attempt under a newer version finds the answers of the one before.
func TestKeysStay(t *testing.T) {
	for _, test := range []struct{ index, key string }{{"", "zam7qjug3zcl-1"}, {"3", "5yub5mnkxssi-1"}} {
		p := Params{Message: "Approve?", RequestedSchema: json.RawMessage(form(`{"approve":{"type":"boolean"}}`))}
		if err := p.Check([]string{"form"}); err != nil {
			t.Fatal(err)
		}
		q, err := NewNamer(test.index, nil).Ask(p)
		if err != nil {
			t.Fatal(err)
		}
		if q.Key != test.key {
			t.Errorf("index %q: key %s, want %s", test.index, q.Key, test.key)
		}
	}
}

// theBridgeTakes checks that a question which was accepted here is accepted there too.
func theBridgeTakes(t *testing.T, p Params) {
	t.Helper()
	p.ElicitationID = ""
	q, err := NewNamer("", nil).Ask(p)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(report.Report{Sequence: 1, InputRequests: []report.InputRequest{q}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bridge.Read(body, 1<<10); err != nil {
		t.Errorf("%s: the bridge says %v", body, err)
	}
}

func FuzzParams(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		var p Params
		if json.Unmarshal([]byte(text), &p) != nil || p.Check([]string{"form", "url"}) != nil {
			return
		}
		first, err := NewNamer("", nil).Ask(p)
		if err != nil {
			t.Fatal(err)
		}
		// What was accepted is the same question when it comes again as it was sent.
		var again Params
		if err := json.Unmarshal(first.Params, &again); err != nil {
			t.Fatal(err)
		}
		theBridgeTakes(t, again)
		again.ElicitationID = ""
		if err := again.Check([]string{"form", "url"}); err != nil {
			t.Fatal(err)
		}
		second, err := NewNamer("", nil).Ask(again)
		if err != nil || second.Key != first.Key {
			t.Errorf("key %s, then %s (%v)", first.Key, second.Key, err)
		}
	})
}
