package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// format is the flag --output.
type format struct{ json bool }

func (f *format) addFlag(cmd *cobra.Command) {
	cmd.Flags().VarP(f, "output", "o", "json or text")
}

// String, Set and Type implement pflag.Value.
func (f *format) String() string {
	if f.json {
		return "json"
	}
	return "text"
}

func (f *format) Set(value string) error {
	if value != "json" && value != "text" {
		return fmt.Errorf("must be json or text")
	}
	f.json = value == "json"
	return nil
}

func (f *format) Type() string { return "format" }

// writeJSON writes a value, indented; JSON that came from a server keeps its fields, their order and its numbers.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeResult prints a result; a result that reports an error is the error of the command too.
func (p *program) writeResult(format format, result *mcpclient.ToolResult) error {
	var err error
	if format.json {
		err = writeJSON(p.out, result.Raw)
	} else {
		err = writeContent(p.out, result)
	}
	if err == nil && result.IsError {
		err = &ended{exitToolError, "the tool reported an error"}
	}
	return err
}

// writeContent prints the texts of a result. Structured content often stands in a text too, for those who cannot read
// it otherwise: it is left out where there is anything else to read.
func writeContent(w io.Writer, result *mcpclient.ToolResult) error {
	texts := []string{}
	for _, block := range result.Content {
		switch {
		case block.Type != "text":
			texts = append(texts, placeholder(block))
		case !sameJSON([]byte(block.Text), result.StructuredContent):
			texts = append(texts, strings.TrimRight(block.Text, "\n"))
		}
	}
	if len(texts) > 0 || len(result.StructuredContent) == 0 {
		for _, text := range texts {
			if _, err := fmt.Fprintln(w, text); err != nil {
				return err
			}
		}
		return nil
	}
	return writeJSON(w, result.StructuredContent)
}

// placeholder stands for content that is no text.
func placeholder(block mcpclient.Content) string {
	parts := slices.DeleteFunc([]string{block.Type, block.Name, block.MIMEType, block.URI}, func(s string) bool { return s == "" })
	return "[" + oneLine(strings.Join(parts, " ")) + "; -o json shows it]"
}

func sameJSON(a, b []byte) bool {
	var left, right bytes.Buffer
	return json.Compact(&left, a) == nil && json.Compact(&right, b) == nil && bytes.Equal(left.Bytes(), right.Bytes())
}

// writeTask prints a task.
func writeTask(w io.Writer, task *mcpclient.Task) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s:\t%s\n", name, oneLine(value))
		}
	}
	line("Task", task.ID)
	line("Status", string(task.Status))
	line("Message", task.StatusMessage)
	line("Created", stamp(task.CreatedAt))
	line("Updated", stamp(task.LastUpdatedAt))
	if task.TTLMs != nil {
		line("Kept until", stamp(task.CreatedAt.Add(time.Duration(*task.TTLMs)*time.Millisecond)))
	}
	for _, key := range slices.Sorted(maps.Keys(task.InputRequests)) {
		question := task.InputRequests[key]
		var asked form
		if err := json.Unmarshal(question.Params, &asked); err != nil {
			line("Question "+key, question.Method+" "+string(question.Params))
			continue
		}
		line("Question "+key, asked.words())
	}
	if task.Error != nil {
		line("Error", task.Error.Error())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if task.Result == nil {
		return nil
	}
	title := "\nResult:"
	if task.Result.IsError {
		title = "\nResult, an error of the tool:"
	}
	fmt.Fprintln(w, title)
	return writeContent(w, task.Result)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// watch prints how a call goes on, a line for each change.
type watch struct {
	out io.Writer
	// of names the task in each line; empty where there is only one.
	of   string
	last string
}

func (w *watch) task(task *mcpclient.Task) { w.say(string(task.Status), task.StatusMessage) }

func (w *watch) progress(p mcpclient.Progress) {
	text := fmt.Sprint(p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %v", p.Total)
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	w.say(string(mcpclient.Working), text)
}

func (w *watch) say(status, message string) {
	line := strings.TrimRight(fmt.Sprintf("%-14s  %s", oneLine(status), oneLine(message)), " ")
	if w.of != "" {
		line = w.of + "  " + line
	}
	if line == w.last {
		return
	}
	w.last = line
	fmt.Fprintln(w.out, time.Now().Format(time.TimeOnly)+"  "+line)
}

// oneLine makes a text from elsewhere fit for one line of a terminal.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
