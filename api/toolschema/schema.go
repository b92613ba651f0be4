// Package toolschema is what the JSON Schemas of a tool mean: whether they are sound, whether
// values fit them, and how arguments reach the containers of the tool's Job.
package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a compiled JSON Schema of a tool (2020-12 unless it says otherwise), whose root is an object.
type Schema struct {
	compiled   *jsonschema.Schema
	properties []Property
}

// Property is one property of the schema's root.
type Property struct {
	// Name as it stands in the schema.
	Name string
	// Default is the JSON text of the property's default, nil without one.
	Default []byte
}

// empty is what an absent schema means.
var empty = []byte(`{"type":"object"}`)

// Compile reads a schema. It never looks anything up: a $ref or $schema that points outside the
// document and the published drafts is an error.
func Compile(raw []byte) (*Schema, error) { return read(raw, false) }

// CompileForm reads the schema of a form that a person fills in (2026-07-28, Elicitation, Requested Schema): unlike
// Compile's, its formats (email, uri, date, date-time) are checked.
func CompileForm(raw []byte) (*Schema, error) { return read(raw, true) }

func read(raw []byte, formats bool) (*Schema, error) {
	if len(raw) == 0 {
		raw = empty
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	root, ok := doc.(map[string]any)
	if !ok || root["type"] != "object" {
		return nil, errors.New(`must be a schema with "type": "object" at its root`)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(refuseRemote{})
	if formats {
		compiler.AssertFormat()
	}
	const here = "schema:///tool"
	if err := compiler.AddResource(here, doc); err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", err)
	}
	compiled, err := compiler.Compile(here)
	if err != nil {
		return nil, compileError(err)
	}
	if cost(compiled) > maxCost {
		return nil, fmt.Errorf("is too complex: its parts refer to each other so often that checking a value would take more than %d steps a place", maxCost)
	}
	s := &Schema{compiled: compiled}
	properties, _ := root["properties"].(map[string]any)
	for name, value := range properties {
		p := Property{Name: name}
		if schema, ok := value.(map[string]any); ok {
			if def, ok := schema["default"]; ok {
				if p.Default, err = json.Marshal(def); err != nil {
					return nil, fmt.Errorf("/properties/%s/default: %w", name, err)
				}
			}
		}
		s.properties = append(s.properties, p)
	}
	sort.Slice(s.properties, func(i, j int) bool { return s.properties[i].Name < s.properties[j].Name })
	return s, nil
}

// Requires says whether the root demands a property.
func (s *Schema) Requires(name string) bool { return slices.Contains(s.compiled.Required, name) }

// Properties are the properties of the root, by name.
func (s *Schema) Properties() []Property { return s.properties }

// refuseRemote is the loader of schemas that refer to other documents.
type refuseRemote struct{}

var errRemote = errors.New("refers to a remote document; put the schema it needs under $defs")

func (refuseRemote) Load(string) (any, error) { return nil, errRemote }

func compileError(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return fmt.Errorf("%s %w", load.URL, errRemote)
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var violation *jsonschema.ValidationError
		if errors.As(invalid.Err, &violation) {
			return fmt.Errorf("is not a JSON Schema: %w", newMismatch(violation))
		}
	}
	return fmt.Errorf("is not a JSON Schema: %w", err)
}

// Mismatch says where and why a value does not fit a schema.
type Mismatch struct {
	// Faults, in the order of their pointers.
	Faults []Fault
	// More is the number of faults left out.
	More int
}

// Fault is one place of a value that does not fit.
type Fault struct {
	// Pointer is the JSON pointer (RFC 6901) of the place; "" is the whole value.
	Pointer string
	// Reason in words.
	Reason string
}

const (
	maxFaults      = 5
	maxReasonBytes = 300
)

func (m *Mismatch) Error() string {
	var b strings.Builder
	for i, f := range m.Faults {
		if i > 0 {
			b.WriteString("; ")
		}
		if f.Pointer != "" {
			b.WriteString(f.Pointer + ": ")
		}
		b.WriteString(f.Reason)
	}
	if m.More > 0 {
		fmt.Fprintf(&b, "; and %d more", m.More)
	}
	return b.String()
}

// Validate says whether the JSON text fits the schema. The error is a *Mismatch when it does not.
func (s *Schema) Validate(raw []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return &Mismatch{Faults: []Fault{{Reason: "is not JSON"}}}
	}
	err = s.validate(value)
	var violation *jsonschema.ValidationError
	if errors.As(err, &violation) {
		return newMismatch(violation)
	}
	return err
}

// validate keeps a value that the library cannot handle from ending the program.
func (s *Schema) validate(value any) (err error) {
	defer func() {
		if recover() != nil {
			err = &Mismatch{Faults: []Fault{{Reason: "cannot be checked against the schema"}}}
		}
	}()
	return s.compiled.Validate(value)
}

// newMismatch keeps the innermost causes: they name the places that a caller can mend.
func newMismatch(root *jsonschema.ValidationError) *Mismatch {
	printer := message.NewPrinter(language.English)
	var faults []Fault
	seen := map[Fault]bool{}
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		f := Fault{Pointer: pointer(e.InstanceLocation), Reason: clip(e.ErrorKind.LocalizedString(printer))}
		if !seen[f] {
			seen[f] = true
			faults = append(faults, f)
		}
	}
	walk(root)
	sort.SliceStable(faults, func(i, j int) bool { return faults[i].Pointer < faults[j].Pointer })
	m := &Mismatch{Faults: faults}
	if len(faults) > maxFaults {
		m.Faults, m.More = faults[:maxFaults], len(faults)-maxFaults
	}
	return m
}

// pointer is the JSON pointer of a location (RFC 6901).
func pointer(location []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, token := range location {
		b.WriteByte('/')
		b.WriteString(escape.Replace(token))
	}
	return b.String()
}

// clip bounds a reason that repeats a long value.
func clip(s string) string {
	if len(s) <= maxReasonBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxReasonBytes], "") + "…"
}
