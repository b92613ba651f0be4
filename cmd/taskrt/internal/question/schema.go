package question

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// dialects are the values of $schema that the bridge takes.
var dialects = []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"}

// checkSchema holds a schema to what MCP lets a form ask for: a flat object of strings, numbers, booleans and choices
// (2025-11-25 and 2026-07-28, client/elicitation, Requested Schema). What it accepts the bridge accepts: a program is told
// at once, in the words of its own request.
func checkSchema(data json.RawMessage) error {
	root, err := object("requestedSchema", data)
	if err != nil {
		return err
	}
	if err := root.only("$schema", "type", "properties", "required"); err != nil {
		return err
	}
	if root.members["$schema"] != nil && !slices.Contains(dialects, root.text("$schema")) {
		return root.wrong("$schema", "must be "+strings.Join(dialects, " or "))
	}
	if root.text("type") != "object" {
		return root.wrong("type", `must be "object"`)
	}
	if root.members["properties"] == nil {
		return root.wrong("properties", "is missing")
	}
	properties, err := object(root.path+".properties", root.members["properties"])
	if err != nil {
		return err
	}
	for _, name := range properties.names() {
		property, err := object(properties.path+"."+name, properties.members[name])
		if err != nil {
			return err
		}
		if err := property.check(); err != nil {
			return err
		}
	}
	required, err := root.strings("required")
	if err != nil {
		return root.wrong("required", "must be an array of strings")
	}
	for _, name := range required {
		if properties.members[name] == nil {
			return root.wrong("required", fmt.Sprintf("names %q, which is not in properties", name))
		}
	}
	return nil
}

// node is one object of the schema.
type node struct {
	path    string
	members map[string]json.RawMessage
}

func object(path string, data json.RawMessage) (*node, error) {
	n := &node{path: path}
	if err := json.Unmarshal(data, &n.members); err != nil || n.members == nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%s is not JSON: %w", path, err)
		}
		return nil, fmt.Errorf("%s must be a JSON object", path)
	}
	return n, nil
}

func (n *node) wrong(member, what string) error { return fmt.Errorf("%s.%s %s", n.path, member, what) }

func (n *node) names() []string {
	names := make([]string, 0, len(n.members))
	for name := range n.members {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// decode leaves target alone when there is no such member.
func (n *node) decode(member string, target any) error {
	if n.members[member] == nil {
		return nil
	}
	if bytes.Equal(n.members[member], []byte("null")) {
		return errors.New("is null")
	}
	return json.Unmarshal(n.members[member], target)
}

func (n *node) text(member string) string {
	var text string
	if n.decode(member, &text) != nil {
		return ""
	}
	return text
}

// strings is a member that is an array of strings, nil when there is none.
func (n *node) strings(member string) ([]string, error) {
	var items []*string // null is no string
	if err := n.decode(member, &items); err != nil {
		return nil, err
	}
	var all []string
	for _, item := range items {
		if item == nil {
			return nil, errors.New("has null")
		}
		all = append(all, *item)
	}
	return all, nil
}

func (n *node) only(allowed ...string) error {
	for _, name := range n.names() {
		if !slices.Contains(allowed, name) {
			return n.wrong(name, "is not part of an elicitation schema; here may stand "+strings.Join(allowed, ", "))
		}
	}
	return nil
}

func (n *node) check() error {
	for _, member := range []string{"title", "description"} {
		var text string
		if n.decode(member, &text) != nil {
			return n.wrong(member, "must be a string")
		}
	}
	switch n.text("type") {
	case "string":
		return n.checkString()
	case "number", "integer":
		return n.checkNumber()
	case "boolean":
		return n.checkBoolean()
	case "array":
		return n.checkChoices()
	}
	return n.wrong("type", `must be "string", "number", "integer", "boolean", or "array" for a choice of several strings`)
}

func (n *node) checkString() error {
	choice := n.members["enum"] != nil || n.members["oneOf"] != nil
	allowed := []string{"type", "title", "description", "default", "minLength", "maxLength", "format", "enum", "oneOf"}
	if choice {
		allowed = []string{"type", "title", "description", "default", "enum", "enumNames", "oneOf"}
	}
	if err := n.only(allowed...); err != nil {
		return err
	}
	if choice {
		return n.checkChoice()
	}
	if err := n.checkBounds("minLength", "maxLength"); err != nil {
		return err
	}
	var preset string
	if n.decode("default", &preset) != nil {
		return n.wrong("default", "must be a string")
	}
	if n.members["format"] != nil && !slices.Contains([]string{"email", "uri", "date", "date-time"}, n.text("format")) {
		return n.wrong("format", "must be email, uri, date or date-time")
	}
	return nil
}

// checkChoice checks the choice of one string.
func (n *node) checkChoice() error {
	options, err := n.options("enum", "oneOf")
	if err != nil {
		return err
	}
	names, err := n.strings("enumNames")
	if err != nil || n.members["enumNames"] != nil && len(names) != len(options) {
		return n.wrong("enumNames", "must be an array with one string for each of enum")
	}
	var preset string
	if n.decode("default", &preset) != nil || n.members["default"] != nil && !slices.Contains(options, preset) {
		return n.wrong("default", "must be one of the choices")
	}
	return nil
}

// checkChoices checks the choice of several strings.
func (n *node) checkChoices() error {
	if err := n.only("type", "title", "description", "default", "minItems", "maxItems", "items"); err != nil {
		return err
	}
	if n.members["items"] == nil {
		return n.wrong("items", "is missing: an array is a choice of several strings, from items.enum or items.anyOf")
	}
	items, err := object(n.path+".items", n.members["items"])
	if err != nil {
		return err
	}
	if err := items.only("type", "enum", "anyOf"); err != nil {
		return err
	}
	if items.text("type") != "string" && (items.members["type"] != nil || items.members["enum"] != nil) {
		return items.wrong("type", `must be "string"`)
	}
	options, err := items.options("enum", "anyOf")
	if err != nil {
		return err
	}
	if err := n.checkBounds("minItems", "maxItems"); err != nil {
		return err
	}
	preset, err := n.strings("default")
	if err != nil {
		return n.wrong("default", "must be an array of strings")
	}
	for _, choice := range preset {
		if !slices.Contains(options, choice) {
			return n.wrong("default", fmt.Sprintf("has %q, which is none of the choices", choice))
		}
	}
	return nil
}

// options are the strings to choose from: plain ones, or ones with a title.
func (n *node) options(plain, titled string) ([]string, error) {
	if (n.members[plain] == nil) == (n.members[titled] == nil) {
		return nil, fmt.Errorf("%s must have either %s or %s", n.path, plain, titled)
	}
	if n.members[plain] != nil {
		options, err := n.strings(plain)
		if err != nil || len(options) == 0 {
			return nil, n.wrong(plain, "must be an array of strings, with at least one")
		}
		return options, nil
	}
	var entries []json.RawMessage
	if n.decode(titled, &entries) != nil || len(entries) == 0 {
		return nil, n.wrong(titled, `must be an array of {"const":…,"title":…}, with at least one`)
	}
	var options []string
	for i, data := range entries {
		entry, err := object(fmt.Sprintf("%s.%s[%d]", n.path, titled, i), data)
		if err != nil {
			return nil, err
		}
		if err := entry.only("const", "title"); err != nil {
			return nil, err
		}
		var value, title *string
		if entry.decode("const", &value) != nil || entry.decode("title", &title) != nil || value == nil || title == nil {
			return nil, fmt.Errorf("%s must have const and title, both strings", entry.path)
		}
		options = append(options, *value)
	}
	return options, nil
}

func (n *node) checkNumber() error {
	if err := n.only("type", "title", "description", "default", "minimum", "maximum"); err != nil {
		return err
	}
	values := map[string]float64{}
	for _, member := range []string{"minimum", "maximum", "default"} {
		if n.members[member] == nil {
			continue
		}
		value, err := number(n.members[member])
		if err != nil {
			return n.wrong(member, err.Error())
		}
		values[member] = value
	}
	if n.members["minimum"] != nil && n.members["maximum"] != nil && values["minimum"] > values["maximum"] {
		return n.wrong("minimum", "is larger than maximum")
	}
	if n.text("type") == "integer" && values["default"] != math.Trunc(values["default"]) {
		return n.wrong("default", "must be a whole number")
	}
	return nil
}

// maxNumberBytes is enough for every number that is kept as it is.
const maxNumberBytes = 32

// number reads a JSON number, but none that the API server would keep as another one: it has 64-bit integers and floats.
func number(data json.RawMessage) (float64, error) {
	text := string(data)
	var value *float64
	if err := json.Unmarshal(data, &value); err != nil && isNumber(text) {
		return 0, errTooLarge
	} else if err != nil || value == nil {
		return 0, errors.New("must be a number")
	}
	exact := len(text) <= maxNumberBytes
	if mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e"); strings.ContainsAny(text, ".eE") {
		zero := strings.Trim(mantissa, "-0.") == ""
		exact = exact && (*value != 0 || zero && len(exponent) <= 4)
	} else {
		_, err := strconv.ParseInt(text, 10, 64)
		exact = exact && err == nil
	}
	if !exact {
		return 0, errTooLarge
	}
	return *value, nil
}

var errTooLarge = errors.New("must be a number that 64 bits can hold")

func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9')
}

func (n *node) checkBoolean() error {
	if err := n.only("type", "title", "description", "default"); err != nil {
		return err
	}
	var preset bool
	if n.decode("default", &preset) != nil {
		return n.wrong("default", "must be true or false")
	}
	return nil
}

func (n *node) checkBounds(low, high string) error {
	var from, to uint32
	for member, target := range map[string]*uint32{low: &from, high: &to} {
		if n.decode(member, target) != nil {
			return n.wrong(member, "must be a whole number, not negative")
		}
	}
	if n.members[low] != nil && n.members[high] != nil && from > to {
		return n.wrong(low, "is larger than "+high)
	}
	return nil
}
