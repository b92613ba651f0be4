package toolschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Bounds of arguments.
const (
	// MaxArgumentsBytes is the largest size of the arguments of a call, as JSON.
	MaxArgumentsBytes = 128 << 10
	// MaxVariableBytes is the largest value given as an environment variable: Linux refuses to start a
	// program with a variable of 128 KiB or more.
	MaxVariableBytes = 100 << 10

	// maxNumberBytes is longer than any number that a float holds.
	maxNumberBytes = 400
)

// Variable is one environment variable of the containers, its value not yet escaped for Kubernetes.
type Variable struct{ Name, Value string }

// VariableName is the name of the environment variable that carries a property: ARG_ and the
// property's name in upper case, with every character outside A-Z, 0-9 and _ as _.
func VariableName(property string) string {
	return "ARG_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, property)
}

// CheckNames says whether every property has an environment variable of its own.
func (s *Schema) CheckNames() error {
	taken := map[string]string{}
	for _, p := range s.properties {
		name := VariableName(p.Name)
		if other, ok := taken[name]; ok {
			return fmt.Errorf("properties %q and %q would both be %s", other, p.Name, name)
		}
		taken[name] = p.Name
	}
	return nil
}

// Variables gives every property of the schema its value: the argument, else the default, else the empty
// string. Scalars are text, all else is JSON. The error, a *Mismatch, names an argument that no variable can carry.
func (s *Schema) Variables(arguments []byte) ([]Variable, error) {
	values := map[string]json.RawMessage{}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &values); err != nil {
			return nil, &Mismatch{Faults: []Fault{{Reason: "arguments must be a JSON object"}}}
		}
	}
	variables := make([]Variable, 0, len(s.properties))
	for _, p := range s.properties {
		raw, given := values[p.Name]
		if !given {
			raw = p.Default
		}
		text, err := text(raw)
		if err == nil && len(text) > MaxVariableBytes {
			err = fmt.Errorf("is %d bytes long; an argument can have at most %d", len(text), MaxVariableBytes)
		}
		if err == nil && strings.ContainsRune(text, 0) {
			err = fmt.Errorf("holds a NUL character, which no environment variable can carry")
		}
		if err != nil {
			return nil, &Mismatch{Faults: []Fault{{Pointer: pointer([]string{p.Name}), Reason: err.Error()}}}
		}
		variables = append(variables, Variable{Name: VariableName(p.Name), Value: text})
	}
	return variables, nil
}

// text is how a JSON value reads in an environment variable.
func text(raw []byte) (string, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case raw[0] == '{' || raw[0] == '[':
		var b bytes.Buffer
		err := json.Compact(&b, raw)
		return b.String(), err
	}
	return string(raw), nil
}

// CheckArguments says whether a call's arguments can be stored and handed on as they are. The error is a *Mismatch.
//
// The API server keeps numbers as 64-bit integers and floats: a number that would come out as another
// one is refused here rather than changed silently.
func CheckArguments(arguments []byte) error {
	if len(arguments) > MaxArgumentsBytes {
		return &Mismatch{Faults: []Fault{{Reason: fmt.Sprintf("arguments are %d bytes long; at most %d are allowed", len(arguments), MaxArgumentsBytes)}}}
	}
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return &Mismatch{Faults: []Fault{{Reason: "arguments are not JSON"}}}
	}
	if _, ok := value.(map[string]any); !ok {
		return &Mismatch{Faults: []Fault{{Reason: "arguments must be a JSON object"}}}
	}
	if half := halfPair(arguments); half != "" {
		return &Mismatch{Faults: []Fault{{Reason: "arguments hold " + half + ", half of a surrogate pair, which is no character"}}}
	}
	return checkNumbers(value)
}

// CheckNumbers says whether every number of a JSON text is kept as it is by the API server, which keeps 64-bit
// integers and floats. The error is a *Mismatch that names the first that is not.
func CheckNumbers(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return &Mismatch{Faults: []Fault{{Reason: "is not JSON"}}}
	}
	return checkNumbers(value)
}

func checkNumbers(value any) error {
	if at := inexact(value, []string{}); at != nil {
		return &Mismatch{Faults: []Fault{{Pointer: pointer(at), Reason: "this number cannot be kept exactly; use a string"}}}
	}
	return nil
}

// halfPair finds an escape in a JSON text that stands for half a character (RFC 8259, section 8.2): a decoder would put
// another character in its place.
func halfPair(text []byte) string {
	escape := func(i int) (rune, bool) {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0, false
		}
		code, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
		return rune(code), err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		first, ok := escape(i)
		switch {
		case !ok:
			i++ // the escaped character, which may be a backslash
		case utf16.IsSurrogate(first):
			second, _ := escape(i + 6)
			if utf16.DecodeRune(first, second) == unicode.ReplacementChar {
				return string(text[i : i+6])
			}
			i += 11
		default:
			i += 5
		}
	}
	return ""
}

// inexact finds a number that a 64-bit integer or float does not hold, by its location.
func inexact(value any, at []string) []string {
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			if found := inexact(child, append(at[:len(at):len(at)], name)); found != nil {
				return found
			}
		}
	case []any:
		for i, child := range v {
			if found := inexact(child, append(at[:len(at):len(at)], strconv.Itoa(i))); found != nil {
				return found
			}
		}
	case json.Number:
		if !exact(v.String()) {
			return at
		}
	}
	return nil
}

// exact says whether a number stays the number it is. A decimal fraction is a float for every JSON reader; but it
// may be neither too large for one nor so small that it becomes 0, and an integer must not change at all.
func exact(number string) bool {
	if _, err := strconv.ParseInt(number, 10, 64); err == nil {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	// The validator counts exactly: a long number or exponent would keep it busy for minutes.
	if err != nil || len(number) > maxNumberBytes {
		return false
	}
	if strings.ContainsAny(number, ".eE") {
		mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
		return f != 0 || strings.Trim(mantissa, "-0.") == "" && len(exponent) <= 4
	}
	whole, ok := new(big.Int).SetString(number, 10)
	if !ok {
		return false
	}
	rounded, _ := big.NewFloat(f).Int(nil)
	return rounded.Cmp(whole) == 0
}
