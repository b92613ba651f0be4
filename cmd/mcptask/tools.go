package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

func (p *program) toolsCommand() *cobra.Command {
	var format format
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools and their arguments",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s tools takes no arguments", p.name)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			connection, err := p.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer connection.close()
			tools, err := connection.ListTools(cmd.Context())
			if err != nil {
				return err
			}
			if format.json {
				return writeJSON(p.out, map[string]any{"tools": tools})
			}
			if len(tools) == 0 {
				fmt.Fprintln(p.errOut, "There are no tools here that you may call. "+noTools)
			}
			return writeTools(p.out, tools)
		},
	}
	format.addFlag(cmd)
	return cmd
}

// noTools is what may be the matter when none are shown: the server does not tell tools that a caller may not call from none.
const noTools = "Whoever runs them sees with kubectl get mcptools which are ready, and gives the right to call them with the role of callers"

// writeTools lists tools, and below each its arguments, the required ones first.
func writeTools(w io.Writer, tools []mcpclient.Tool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, tool := range tools {
		fmt.Fprintf(table, "%s\t%s\n", oneLine(tool.Name), brief(tool))
		schema := readSchema(tool.InputSchema)
		names := slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
			if schema.requires(a) != schema.requires(b) {
				return map[bool]int{true: -1, false: 1}[schema.requires(a)]
			}
			return strings.Compare(a, b)
		})
		for _, name := range names {
			fmt.Fprintf(table, "  %s\t%s\n", oneLine(name), schema.describe(name))
		}
	}
	return table.Flush()
}

// brief is the first sentence of a tool's description, or its title.
func brief(tool mcpclient.Tool) string {
	text := tool.Description
	if text == "" {
		text = tool.Title
	}
	return firstSentence(text)
}

func firstSentence(text string) string {
	text = oneLine(text)
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}

// schema is what the command looks at in an inputSchema.
type schema struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
	// open says that the schema speaks of properties beside those that it names.
	open bool
}

type property struct {
	Type        types           `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
}

// types are the JSON types of a property; none when the schema does not say.
type types []string

// UnmarshalJSON implements json.Unmarshaler: a type is a string or an array of strings.
func (t *types) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// readSchema reads as much of an inputSchema as is needed to be helpful. Whether arguments fit is the server's to say.
func readSchema(raw json.RawMessage) schema {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Additional json.RawMessage            `json:"additionalProperties"`
	}
	var words map[string]json.RawMessage
	_ = json.Unmarshal(raw, &words)
	_ = json.Unmarshal(raw, &s) // what is odd here is described as less
	found := schema{Properties: map[string]property{}, Required: s.Required,
		open: len(s.Additional) > 0 && string(s.Additional) != "false"}
	for _, word := range []string{"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"} {
		_, said := words[word]
		found.open = found.open || said
	}
	for name, raw := range s.Properties {
		var p property
		_ = json.Unmarshal(raw, &p) // a property may be true, which says nothing about it
		found.Properties[name] = p
	}
	return found
}

func (s schema) requires(name string) bool { return slices.Contains(s.Required, name) }

func (s schema) describe(name string) string {
	p := s.Properties[name]
	parts := []string{}
	if len(p.Type) > 0 {
		parts = append(parts, strings.Join(p.Type, " or "))
	}
	if s.requires(name) {
		parts = append(parts, "required")
	}
	if len(p.Default) > 0 {
		parts = append(parts, "default "+string(p.Default))
	}
	text := strings.Join(parts, ", ")
	if text != "" && p.Description != "" {
		text += ": "
	}
	return oneLine(text + firstSentence(p.Description))
}
