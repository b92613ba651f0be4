package toolschema

import "github.com/santhosh-tekuri/jsonschema/v6"

// maxCost bounds how many parts of a schema may be applied to one place of a value and below it. References that fan out
// double the work at each level: some twenty lines can take minutes for an empty object.
const maxCost = 20_000

// cost counts the parts of a schema as often as they are applied. A part that contains itself counts once.
func cost(root *jsonschema.Schema) int {
	known := map[*jsonschema.Schema]int{}
	var of func(s *jsonschema.Schema) int
	of = func(s *jsonschema.Schema) int {
		if s == nil {
			return 0
		}
		if c, ok := known[s]; ok {
			return c
		}
		known[s] = 1 // what a cycle finds
		sum := 1
		for _, part := range parts(s) {
			if sum += of(part); sum > maxCost {
				break
			}
		}
		known[s] = sum
		return sum
	}
	return of(root)
}

// parts are the schemas that a schema applies, to the same place or to places below it.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		all = append(all, list...)
	}
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, part := range m {
			all = append(all, part)
		}
	}
	for _, part := range s.PatternProperties {
		all = append(all, part)
	}
	for _, part := range s.Dependencies {
		if schema, ok := part.(*jsonschema.Schema); ok {
			all = append(all, schema)
		}
	}
	for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch part := either.(type) {
		case *jsonschema.Schema:
			all = append(all, part)
		case []*jsonschema.Schema:
			all = append(all, part...)
		}
	}
	return all
}
