package toolschema

import (
	"reflect"
	"strings"
	"testing"
)

func TestVariablesCarryArgumentsDefaultsAndNothing(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{
		"url":{"type":"string"},"maxPages":{"type":"integer","default":1000},"dry-run":{"type":"boolean"},
		"tags":{"type":"array"},"none":{"type":["string","null"],"default":"x"}}}`)
	got, err := s.Variables([]byte(`{"url":"$(DB_PASSWORD) $$(X)\n; rm -rf /","tags":["a", {"b": 1}],"none":null,"undeclared":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Variable{
		{"ARG_DRY_RUN", ""}, {"ARG_MAXPAGES", "1000"}, {"ARG_NONE", ""},
		{"ARG_TAGS", `["a",{"b":1}]`}, {"ARG_URL", "$(DB_PASSWORD) $$(X)\n; rm -rf /"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestVariablesRefuseByName(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"text":{"type":"string"}}}`)
	for name, tc := range map[string]struct{ arguments, want string }{
		"too long":  {`{"text":"` + strings.Repeat("x", MaxVariableBytes+1) + `"}`, "/text: is 102401 bytes long"},
		"NUL":       {`{"text":"a\u0000b"}`, "/text: holds a NUL"},
		"no object": {`[]`, "must be a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Variables([]byte(tc.arguments))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCheckNamesFindsCollisions(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"dry-run":{},"dry_run":{}}}`)
	if err := s.CheckNames(); err == nil || !strings.Contains(err.Error(), `"dry-run" and "dry_run" would both be ARG_DRY_RUN`) {
		t.Errorf("got %v", err)
	}
}

func TestCheckArgumentsRefusesWhatWouldChange(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"a":{"b":[1,12345678901234567890123]}}`: "/a/b/1: this number cannot be kept exactly",
		`{"a":1e999}`:          "/a: this number",
		`{"a":"\\\ud800"}`:     `hold \ud800, half of a surrogate pair`,
		`{"a":"\ud83e\u0041"}`: `hold \ud83e`,
		`{"a":"\udc00"}`:       `hold \udc00`,
		`"x"`:                  "must be a JSON object",
		`{"a":`:                "not JSON",
		`{"a":"` + strings.Repeat("x", MaxArgumentsBytes) + `"}`: "at most 131072",
	} {
		if err := CheckArguments([]byte(arguments)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", arguments, err, want)
		}
	}
	for _, arguments := range []string{`{}`, `{"a":9223372036854775807,"b":-0.5,"c":18446744073709551616,"d":0.1,"e":0e0,"f":-0.0,"g":1e-300,"h":1E+300}`, `{"a":"\ud83e\udd80 \\ud800 \\\\ud800 \ufffd"}`} {
		if err := CheckArguments([]byte(arguments)); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}
