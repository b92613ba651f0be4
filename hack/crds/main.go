// Command crds finishes the CustomResourceDefinitions that controller-gen made.
//
// It drops the descriptions below McpTool's jobTemplate: with them the definition has 340 KB, too much for the
// annotation of a client-side kubectl apply; all other descriptions stay, for kubectl explain. Then it
// writes the same definitions as templates of the chart: Helm never upgrades what stands in a chart's crds folder.
//
//	crds config/crd charts/mcptask/templates/crds
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: crds DEFINITIONS CHART_TEMPLATES")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

func run(definitions, templates string) error {
	files, err := filepath.Glob(filepath.Join(definitions, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no definitions in %s", definitions)
	}
	if err := os.MkdirAll(templates, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		stripJobTemplate(crd)
		out, err := yaml.Marshal(crd)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append([]byte("---\n"), out...), 0o644); err != nil {
			return err
		}
		tmpl, err := template(crd)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(templates, filepath.Base(file)), tmpl, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stripJobTemplate drops all descriptions below every property named jobTemplate, but keeps the property's own.
func stripJobTemplate(node any) {
	switch n := node.(type) {
	case map[string]any:
		for key, child := range n {
			if schema, ok := child.(map[string]any); ok && key == "jobTemplate" {
				description := schema["description"]
				stripDescriptions(schema)
				schema["description"] = description
				continue
			}
			stripJobTemplate(child)
		}
	case []any:
		for _, child := range n {
			stripJobTemplate(child)
		}
	}
}

func stripDescriptions(node any) {
	switch n := node.(type) {
	case map[string]any:
		// A property may itself be called "description": that is a schema, not a text.
		if _, text := n["description"].(string); text {
			delete(n, "description")
		}
		for _, child := range n {
			stripDescriptions(child)
		}
	case []any:
		for _, child := range n {
			stripDescriptions(child)
		}
	}
}

// template renders the definition as a template of the chart that upgrades reach and uninstalls keep.
func template(crd map[string]any) ([]byte, error) {
	meta, ok := crd["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("definition without metadata")
	}
	annotations, _ := meta["annotations"].(map[string]any)
	kept := map[string]any{"helm.sh/resource-policy": "keep"}
	for k, v := range annotations {
		kept[k] = v
	}
	meta["annotations"] = kept
	out, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(out, []byte("{{")) {
		return nil, fmt.Errorf("%s: a description holds {{, which the chart's templates would read as an action", meta["name"])
	}
	var b strings.Builder
	b.WriteString("{{- if .Values.crds.install }}\n")
	b.Write(out)
	b.WriteString("{{- end }}\n")
	return []byte(b.String()), nil
}
