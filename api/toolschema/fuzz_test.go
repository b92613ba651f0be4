package toolschema

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzSchema: a tool's author writes the schema and an agent the arguments. Whatever they are, the schema is taken or refused, the
// arguments fit or do not, and what reaches the Job is one value a property that an environment variable can carry.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"text":{"type":"string"},"depth":{"type":"integer","default":3}}}`, `{"text":"$(DB_PASSWORD)"}`},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}}}`, `{"a":{"a":{}}}`},
		{`{"type":"object","properties":{"a-b":{},"a_b":{}}}`, `{"a-b":1}`},
		{`{"type":"object","patternProperties":{"^(a+)+$":{}},"additionalProperties":false}`, `{"aaaaaaaaaaaaaaaaaaaaaaaa!":1}`},
		{`{"type":"object","allOf":[{"anyOf":[{"oneOf":[{"not":{}}]}]}]}`, `{}`},
		{`{"type":"object","properties":{"x":{"type":"array","uniqueItems":true}}}`, `{"x":["\u0000",1e400]}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, `null`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, raw, arguments []byte) {
		schema, err := Compile(raw)
		if err != nil || schema.CheckNames() != nil {
			return
		}
		if CheckArguments(arguments) != nil || schema.Validate(arguments) != nil {
			return
		}
		if !json.Valid(arguments) {
			t.Fatalf("%q is no JSON and fits %s", arguments, raw)
		}
		variables, err := schema.Variables(arguments)
		if err != nil {
			return
		}
		if len(variables) != len(schema.Properties()) {
			t.Errorf("%d variables of %d properties", len(variables), len(schema.Properties()))
		}
		for _, v := range variables {
			if strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00") || len(v.Value) > MaxVariableBytes {
				t.Errorf("no environment can hold %q=%.100q", v.Name, v.Value)
			}
		}
	})
}
