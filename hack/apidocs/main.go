// Command apidocs writes the reference of the API from its CustomResourceDefinitions: every field with its type,
// default, bounds and meaning, and every rule with the words that a refusal uses.
//
//	apidocs config/crd docs/reference.md
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: apidocs DEFINITIONS OUTPUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "apidocs:", err)
		os.Exit(1)
	}
}

func run(definitions, output string) error {
	files, err := filepath.Glob(filepath.Join(definitions, "*.yaml"))
	if err != nil {
		return err
	}
	var page bytes.Buffer
	page.WriteString("# API reference\n\nGroup `mcptask.dev`, version `v1alpha1`. Generated from the types; the same text is in `kubectl explain`.\n")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			kind(&page, crd.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
		}
	}
	return os.WriteFile(output, page.Bytes(), 0o644)
}

func kind(page *bytes.Buffer, name string, schema *apiextensionsv1.JSONSchemaProps) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n", name, schema.Description)
	rules(page, "", schema)
	for _, part := range []string{"spec", "status"} {
		if s, ok := schema.Properties[part]; ok {
			fmt.Fprintf(page, "\n### %s.%s\n\n| field | type | meaning |\n|---|---|---|\n", name, part)
			fields(page, "", &s)
			fmt.Fprintf(page, "\n")
			rules(page, part, &s)
		}
	}
}

// fields writes a row for each field, its own fields after it. The Job template's are Kubernetes' own.
func fields(page *bytes.Buffer, prefix string, schema *apiextensionsv1.JSONSchemaProps) {
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	required := map[string]bool{}
	for _, name := range schema.Required {
		required[name] = true
	}
	for _, name := range names {
		s := schema.Properties[name]
		path := prefix + name
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", path, kindOf(&s), cell(meaning(&s, required[name])))
		switch {
		case name == "jobTemplate":
		case s.Items != nil && s.Items.Schema != nil:
			fields(page, path+"[].", s.Items.Schema)
		default:
			fields(page, path+".", &s)
		}
	}
}

func kindOf(s *apiextensionsv1.JSONSchemaProps) string {
	if s.Items != nil && s.Items.Schema != nil {
		return "list of " + kindOf(s.Items.Schema)
	}
	if s.Format == "date-time" {
		return "time"
	}
	return s.Type
}

func meaning(s *apiextensionsv1.JSONSchemaProps, required bool) string {
	parts := []string{s.Description}
	if required {
		parts = append(parts, "**Required.**")
	}
	if len(s.Enum) > 0 {
		values := make([]string, 0, len(s.Enum))
		for _, v := range s.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		parts = append(parts, "One of "+strings.Join(values, ", ")+".")
	}
	if s.Default != nil && string(s.Default.Raw) != "{}" {
		parts = append(parts, "Default: `"+strings.Trim(string(s.Default.Raw), `"`)+"`.")
	}
	if s.Pattern != "" {
		parts = append(parts, "Pattern: `"+s.Pattern+"`.")
	}
	if s.Minimum != nil {
		parts = append(parts, fmt.Sprintf("At least %.0f.", *s.Minimum))
	}
	if s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("At most %.0f.", *s.Maximum))
	}
	if s.MaxLength != nil {
		parts = append(parts, fmt.Sprintf("At most %d characters.", *s.MaxLength))
	}
	if s.MaxItems != nil {
		parts = append(parts, fmt.Sprintf("At most %d entries.", *s.MaxItems))
	}
	for _, rule := range s.XValidations {
		parts = append(parts, "It "+rule.Message+".")
	}
	return strings.Join(parts, " ")
}

// rules writes the rules that join several fields.
func rules(page *bytes.Buffer, prefix string, s *apiextensionsv1.JSONSchemaProps) {
	if len(s.XValidations) == 0 {
		return
	}
	page.WriteString("Rules:\n\n")
	for _, rule := range s.XValidations {
		if rule.FieldPath != "" {
			fmt.Fprintf(page, "- `%s%s` %s\n", prefix, rule.FieldPath, rule.Message)
		} else {
			fmt.Fprintf(page, "- %s\n", rule.Message)
		}
	}
}

// cell makes a text fit a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
