package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/question"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/socket"
)

// pollWait is how long one request for an answer waits.
const pollWait = 50 * time.Second

func (p *program) ask(ctx context.Context, args []string) error {
	var asked questions
	flags := p.flagSet("ask", "ask --message TEXT (--schema JSON|@FILE | --url URL) [--message TEXT ...] [--no-wait] [--timeout 1h]")
	flags.Var(part{&asked, "message"}, "message", "what is asked, and why; each further --message begins a further question")
	flags.Var(part{&asked, "schema"}, "schema", "the form to fill in: a flat JSON Schema, or @ and a file that has it")
	flags.Var(part{&asked, "url"}, "url", "the page to visit")
	noWait := flags.Bool("no-wait", false, "print the keys of the questions, one a line, and do not wait for answers")
	timeout := timeoutOf(flags)
	if err := p.parse(flags, args, 0, 0); err != nil {
		return err
	}
	if len(asked.all) == 0 {
		return usagef("needs --message, and --schema or --url")
	}
	ctx, cancel := within(ctx, *timeout)
	defer cancel()
	var keys socket.Keys
	// With its id a question that is sent again, after a restart of the sidecar, is still the same one.
	err := p.client.call(ctx, http.MethodPost, "/v1/questions", socket.Questions{ID: rand.Text(), Questions: asked.all}, &keys)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &exit{ExitTimeout, fmt.Sprintf("the question could not be asked within %v", *timeout)}
	case err != nil:
		return err
	}
	if *noWait {
		fmt.Fprintln(p.out, strings.Join(keys.Keys, "\n"))
		return nil
	}
	answers := []socket.Answer{}
	for _, key := range keys.Keys {
		answer, err := p.await(ctx, key)
		if err != nil {
			return err
		}
		answers = append(answers, *answer)
	}
	if len(answers) == 1 {
		return p.print(shape(answers[0], false), answers)
	}
	several := []reply{}
	for _, answer := range answers {
		several = append(several, shape(answer, true))
	}
	return p.print(several, answers)
}

func (p *program) answer(ctx context.Context, args []string) error {
	flags := p.flagSet("answer", "answer KEY [--wait] [--timeout 1h]")
	wait := flags.Bool("wait", false, "wait for the answer")
	timeout := timeoutOf(flags)
	if err := p.parse(flags, args, 1, 1); err != nil {
		return err
	}
	ctx, cancel := within(ctx, *timeout)
	defer cancel()
	if *wait || *timeout > 0 {
		answer, err := p.await(ctx, flags.Arg(0))
		if err != nil {
			return err
		}
		return p.print(shape(*answer, false), []socket.Answer{*answer})
	}
	var answer socket.Answer
	if err := p.client.call(ctx, http.MethodGet, "/v1/questions/"+url.PathEscape(flags.Arg(0)), nil, &answer); err != nil {
		return err
	}
	if !answer.Answered {
		return &exit{ExitTimeout, "not answered yet"}
	}
	return p.print(shape(answer, false), []socket.Answer{answer})
}

// timeoutOf adds the option that bounds the waiting.
func timeoutOf(flags *pflag.FlagSet) *time.Duration {
	var timeout time.Duration
	flags.Var((*timeValue)(&timeout), "timeout", "how long to wait, such as 90s or 1h; without it, as long as it takes")
	return &timeout
}

// await waits for the answer to a question.
func (p *program) await(ctx context.Context, key string) (*socket.Answer, error) {
	path := fmt.Sprintf("/v1/questions/%s?wait=%d", url.PathEscape(key), int(pollWait.Seconds()))
	for {
		var answer socket.Answer
		err := p.client.call(ctx, http.MethodGet, path, nil, &answer)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, &exit{ExitTimeout, "no answer in time; ask for it later with: task answer " + key}
		case err != nil:
			return nil, err
		case answer.Answered:
			return &answer, nil
		}
	}
}

// reply is an answer as it is printed.
type reply struct {
	Key     string          `json:"key,omitempty"`
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

func shape(a socket.Answer, withKey bool) reply {
	r := reply{Action: a.Action, Content: a.Content}
	if withKey {
		r.Key = a.Key
	}
	return r
}

// print prints the replies. The exit code says whether all were accepted; a decline counts more than a dismissal.
func (p *program) print(replies any, answers []socket.Answer) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(replies); err != nil {
		return err
	}
	code := ExitOK
	for _, a := range answers {
		switch {
		case a.Action == "decline":
			code = ExitDeclined
		case a.Action == "cancel" && code == ExitOK:
			code = ExitCanceled
		}
	}
	if code == ExitOK {
		return nil
	}
	return &exit{code: code}
}

// questions are collected from the options in their order.
type questions struct{ all []question.Params }

// part is an option that is a part of a question. It begins a new one if the last one has such a part already.
type part struct {
	of   *questions
	name string
}

func (p part) String() string { return "" }

func (p part) Type() string {
	return map[string]string{"message": "TEXT", "schema": "JSON", "url": "URL"}[p.name]
}

func (p part) Set(value string) error {
	all := p.of.all
	last := len(all) - 1
	if last < 0 || p.name == "message" && all[last].Message != "" || p.name != "message" && (all[last].RequestedSchema != nil || all[last].URL != "") {
		all = append(all, question.Params{})
		last++
	}
	switch p.name {
	case "message":
		all[last].Message = value
	case "url":
		all[last].URL = value
	case "schema":
		schema, err := readSchema(value)
		if err != nil {
			return err
		}
		all[last].RequestedSchema = schema
	}
	p.of.all = all
	return nil
}

func readSchema(value string) (json.RawMessage, error) {
	data := []byte(value)
	if path, ok := strings.CutPrefix(value, "@"); ok {
		var err error
		if data, err = os.ReadFile(path); err != nil { //nolint:gosec // a file of whoever runs the command, who could read it as well
			return nil, err
		}
	}
	if !json.Valid(data) {
		return nil, errors.New("not JSON (a file's name needs an @ before it)")
	}
	return data, nil
}
