package toolschema

import (
	"errors"
	"strings"
	"testing"
)

func TestCompileRefusesWhatNobodyCouldUse(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"not JSON":        {`{"type":`, "is not JSON"},
		"no object":       {`{"type":"string"}`, `"type": "object"`},
		"an array":        {`[]`, `"type": "object"`},
		"unknown type":    {`{"type":"object","properties":{"depth":{"type":"int"}}}`, "/properties/depth/type"},
		"bad keyword":     {`{"type":"object","required":"url"}`, "/required"},
		"remote $ref":     {`{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`, "https://example.com/a.json refers to a remote document"},
		"file $ref":       {`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "refers to a remote document"},
		"dangling $ref":   {`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, "$defs/none"},
		"remote $schema":  {`{"$schema":"https://example.com/meta","type":"object"}`, "remote document"},
		"malformed regex": {`{"type":"object","properties":{"a":{"pattern":"("}}}`, "/properties/a/pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile([]byte(tc.schema))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want it to name %q", err, tc.want)
			}
		})
	}
}

func TestCompileTakesLocalReferencesAndOlderDrafts(t *testing.T) {
	for _, schema := range []string{
		``,
		`{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`,
	} {
		if _, err := Compile([]byte(schema)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestValidateNamesThePlace(t *testing.T) {
	s := compile(t, `{"type":"object","required":["url"],"additionalProperties":false,"properties":{
		"url":{"type":"string"},"depth":{"type":"integer","maximum":20},"a/b":{"type":"array","items":{"type":"string"}}}}`)
	for value, want := range map[string]string{
		`{"url":"x","depth":30}`:     "/depth: ",
		`{"depth":3}`:                "url",
		`{"url":"x","a/b":["y",1]}`:  "/a~1b/1: ",
		`{"url":"x","other":true}`:   "other",
		`[]`:                         "object",
		`{"url":"x","depth":"deep"}`: "/depth: got string, want integer",
	} {
		err := s.Validate([]byte(value))
		var m *Mismatch
		if !errors.As(err, &m) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a mismatch with %q", value, err, want)
		}
	}
	if err := s.Validate([]byte(`{"url":"x","depth":3}`)); err != nil {
		t.Error(err)
	}
}

func TestMismatchIsBounded(t *testing.T) {
	s := compile(t, `{"type":"object","additionalProperties":{"const":1}}`)
	value := `{"a":"` + strings.Repeat("x", 100_000) + `","b":2,"c":2,"d":2,"e":2,"f":2,"g":2}`
	err := s.Validate([]byte(value))
	if len(err.Error()) > 2_000 || !strings.Contains(err.Error(), "and 2 more") {
		t.Errorf("got %d bytes: %.200s", len(err.Error()), err)
	}
}

func compile(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := Compile([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
