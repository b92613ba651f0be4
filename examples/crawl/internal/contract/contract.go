// Package contract holds tests to the schemas that tool.yaml promises.
package contract

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// Schema is one of a tool's schemas.
type Schema struct {
	name   string
	schema *jsonschema.Schema
}

// Input is the inputSchema of the tool in this file.
func Input(t *testing.T, file string) Schema { return read(t, file, "inputSchema") }

// Output is the outputSchema of the tool in this file.
func Output(t *testing.T, file string) Schema { return read(t, file, "outputSchema") }

func read(t *testing.T, file, name string) Schema {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var tool struct{ Spec map[string]any }
	if err := yaml.Unmarshal(text, &tool); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(name, tool.Spec[name]); err != nil {
		t.Fatalf("%s: %s: %v", file, name, err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatalf("%s: %s: %v", file, name, err)
	}
	return Schema{name: name, schema: schema}
}

// Err says how a JSON text misses the schema, nil if it does not.
func (s Schema) Err(text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.schema.Validate(value)
}

// Check fails the test when a JSON text misses the schema.
func (s Schema) Check(t *testing.T, text []byte) {
	t.Helper()
	if err := s.Err(text); err != nil {
		t.Errorf("%s: %v\nin %.2000s", s.name, err, text)
	}
}
