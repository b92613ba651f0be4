package toolschema

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestHeaderAnnotations(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"}}}`:                                     "",
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"Deep"}}}}}`: "",
		`{"type":"object","properties":{"x-mcp-header":{"type":"string","default":{"x-mcp-header":1}}}}`:                     "",
		`{"type":"object","x-mcp-header":"Root"}`:                                                                            "only on properties",
		`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}`:                                          "/properties/a has x-mcp-header, which is allowed only with",
		`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`:                                          "only with the type",
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"two words"}}}`:                                  "no name of a header",
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                           "no name of a header",
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`:                 "only on properties",
		`{"type":"object","allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`:                              "only on properties",
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`: "/properties/a and /properties/b have the same",
	} {
		err := CheckHeaders([]byte(schema))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}

func TestSchemasThatFanOutAreRefused(t *testing.T) {
	var definitions []string
	for i := range 24 {
		definitions = append(definitions, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	schema := `{"type":"object","$ref":"#/$defs/d0","$defs":{` + strings.Join(definitions, ",") + `,"d24":{}}}`
	if _, err := Compile([]byte(schema)); err == nil || !strings.Contains(err.Error(), "too complex") {
		t.Errorf("got %v", err)
	}
	compile(t, `{"type":"object","properties":{"tree":{"$ref":"#/$defs/tree"}},"$defs":{"tree":{"type":"object","properties":{"left":{"$ref":"#/$defs/tree"},"right":{"$ref":"#/$defs/tree"}}}}}`)
}

// Numbers of exact arithmetic are no way to keep the validator busy, or to end it.
func TestOddNumbersAreCheap(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}},"b":{"type":"number","minimum":1}}}`)
	for _, arguments := range []string{
		`{"a":[` + strings.Repeat("1e-999999,", 10_000) + `1]}`, `{"b":1e-9999999}`, `{"b":1e9999999}`, `{"a":[0e-999999999999999999999]}`,
	} {
		began := time.Now()
		if err := CheckArguments([]byte(arguments)); err == nil {
			err = s.Validate([]byte(arguments))
			t.Errorf("%.40s is let through to the validator: %v", arguments, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%.40s took %s", arguments, took)
		}
	}
}
