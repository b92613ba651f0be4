package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// objectArgument reads arguments that were given as one JSON object.
func objectArgument(text string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		if err == nil || json.Valid([]byte(text)) {
			return nil, usagef(`the arguments must be a JSON object, such as '{"name":"value"}'`)
		}
		return nil, usagef("the arguments are not JSON: %v", err)
	}
	return json.RawMessage(text), nil
}

// pair is a NAME=VALUE of a flag.
type pair struct{ name, value string }

func readPairs(flag string, texts []string) ([]pair, error) {
	pairs := []pair{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("%s %q is not NAME=VALUE", flag, text)
		}
		if slices.ContainsFunc(pairs, func(p pair) bool { return p.name == name }) {
			return nil, usagef("%s %s is given twice", flag, name)
		}
		pairs = append(pairs, pair{name, value})
	}
	return pairs, nil
}

// typed makes the arguments object of pairs, with values of the types that the tool's inputSchema names.
func typed(tool mcpclient.Tool, pairs []pair) (json.RawMessage, error) {
	schema := readSchema(tool.InputSchema)
	properties := schema.Properties
	object := map[string]json.RawMessage{}
	for _, p := range pairs {
		if _, known := properties[p.name]; !known && schema.closed() {
			return nil, usagef("the tool %s names no argument %s, but: %s; give others as one JSON object", tool.Name, p.name,
				strings.Join(slices.Sorted(maps.Keys(properties)), ", "))
		}
		value, ok := properties[p.name].Type.value(p.value)
		if !ok {
			return nil, usagef("--arg %s=%s: the tool %s wants %s here", p.name, p.value, tool.Name,
				strings.Join(properties[p.name].Type, " or "))
		}
		object[p.name] = value
	}
	return json.Marshal(object)
}

// closed says that arguments which are not named are most likely misspelt: some are named, and nothing is said of others.
func (s schema) closed() bool {
	return len(s.Properties) > 0 && !s.open
}

// value is a text as a value of one of the types. A text that fits a type other than string is taken for that; where the
// schema names no type, every text that is JSON is taken for JSON.
func (t types) value(text string) (json.RawMessage, bool) {
	if raw := json.RawMessage(strings.TrimSpace(text)); json.Valid(raw) {
		kind := kindOf(raw)
		if len(t) == 0 || kind != "string" && slices.Contains(t, kind) || kind == "number" && slices.Contains(t, "integer") {
			return raw, true
		}
	}
	if len(t) > 0 && !slices.Contains(t, "string") {
		return nil, false
	}
	quoted, err := json.Marshal(text)
	return quoted, err == nil
}

// kindOf is the JSON type of a valid value.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
