package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// form is what the elicitation of a form says (2026-07-28, Elicitation, Form Mode).
type form struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
	URL     string          `json:"url"`
}

// answerFlags are the ways to answer.
type answerFlags struct {
	key             string
	content         string
	fields          []string
	visited         bool
	decline, cancel bool
}

func (p *program) answerCommand() *cobra.Command {
	var flags answerFlags
	cmd := &cobra.Command{
		Use:   "answer TASK",
		Short: "Answer a question of a task",
		Long: `Answer a question of a task.

The values of a form are given one by one, --set NAME=VALUE, or all at once, --content '{"NAME":…}'. A question that leads to
a URL is answered with --visited once that was done. Every question can be declined, or cancelled without an answer.
Where more than one question is open, --key says which; "get TASK" shows them.`,
		Args: p.oneArgument("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, err := p.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer connection.close()
			task, err := connection.GetTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			key, question, err := flags.question(task)
			if err != nil {
				return err
			}
			response, err := flags.response(question)
			if err != nil {
				return err
			}
			if err := connection.UpdateTask(cmd.Context(), task.ID, map[string]any{key: response}); err != nil {
				return err
			}
			fmt.Fprintf(p.errOut, "Answered. See how the task goes on: %s wait %s%s\n", p.name, oneLine(task.ID), p.flags)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.key, "key", "", "the question's key, where several are open")
	f.StringVar(&flags.content, "content", "", "the values of the form, a JSON object")
	f.StringArrayVar(&flags.fields, "set", nil, "a value of the form, NAME=VALUE; may be given several times")
	f.BoolVar(&flags.visited, "visited", false, "the URL of the question was visited")
	f.BoolVar(&flags.decline, "decline", false, "decline the question")
	f.BoolVar(&flags.cancel, "cancel", false, "leave the question without an answer")
	return cmd
}

// question is the one that the flags mean.
func (f *answerFlags) question(task *mcpclient.Task) (string, form, error) {
	keys := slices.Sorted(maps.Keys(task.InputRequests))
	var none form
	switch {
	case len(keys) == 0:
		return "", none, usagef("the task has no open question")
	case f.key == "" && len(keys) > 1:
		return "", none, usagef("the task has %d open questions: say which with --key %s", len(keys), oneLine(strings.Join(keys, " or --key ")))
	case f.key == "":
		f.key = keys[0]
	}
	asked, ok := task.InputRequests[f.key]
	if !ok {
		return "", none, usagef("the task has no open question %q; open are: %s", f.key, oneLine(strings.Join(keys, ", ")))
	}
	var question form
	if err := json.Unmarshal(asked.Params, &question); err != nil {
		return "", none, fmt.Errorf("the question %s cannot be read: %w", f.key, err)
	}
	return f.key, question, nil
}

// response is what the flags answer.
func (f *answerFlags) response(question form) (map[string]any, error) {
	given := 0
	for _, way := range []bool{f.content != "", len(f.fields) > 0, f.visited, f.decline, f.cancel} {
		if way {
			given++
		}
	}
	if given != 1 {
		return nil, usagef("answer in one way: --set, --content, --visited, --decline or --cancel")
	}
	switch {
	case f.decline:
		return map[string]any{"action": "decline"}, nil
	case f.cancel:
		return map[string]any{"action": "cancel"}, nil
	case f.visited != (question.Mode == "url"):
		if f.visited {
			return nil, usagef("this question is a form: answer it with --set or --content")
		}
		return nil, usagef("this question leads to %s: visit it and answer with --visited", oneLine(question.URL))
	case f.visited:
		return map[string]any{"action": "accept"}, nil
	case f.content != "":
		content, err := objectArgument(f.content)
		if err != nil {
			return nil, err
		}
		return map[string]any{"action": "accept", "content": content}, nil
	}
	pairs, err := readPairs("--set", f.fields)
	if err != nil {
		return nil, err
	}
	schema := readSchema(question.Schema)
	properties := schema.Properties
	content := map[string]json.RawMessage{}
	for _, pair := range pairs {
		if _, known := properties[pair.name]; !known && schema.closed() {
			return nil, usagef("the form has no field %s, but: %s", pair.name, oneLine(strings.Join(slices.Sorted(maps.Keys(properties)), ", ")))
		}
		value, ok := properties[pair.name].Type.value(pair.value)
		if !ok {
			return nil, usagef("--set %s=%s: the form wants %s here", pair.name, pair.value, strings.Join(properties[pair.name].Type, " or "))
		}
		content[pair.name] = value
	}
	return map[string]any{"action": "accept", "content": content}, nil
}

// words are a question as one line for people.
func (q form) words() string {
	if q.Mode == "url" {
		return fmt.Sprintf("%s (visit %s)", q.Message, q.URL)
	}
	var fields []string
	schema := readSchema(q.Schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := name
		if kind := strings.Join(schema.Properties[name].Type, "|"); kind != "" {
			field += " " + kind
		}
		fields = append(fields, field)
	}
	return fmt.Sprintf("%s (%s)", q.Message, strings.Join(fields, ", "))
}
