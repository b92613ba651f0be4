package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/socket"
)

const (
	// tellWithin is how long progress and state may wait for a sidecar that is away: the work must not stop for them.
	tellWithin = 5 * time.Second
	// finishWithin is how long result, fail and cancelled wait until the bridge has them.
	finishWithin = 10 * time.Minute
)

func (p *program) progress(ctx context.Context, args []string) error {
	flags := p.flagSet("progress", "progress N [--total M] [MESSAGE]")
	total := flags.String("total", "", "the whole amount of work")
	for _, arg := range args[:endOfOptions(args)] {
		if negative.MatchString(arg) {
			return usagef("%s: an amount of work must be a number from 0 on", arg)
		}
	}
	if err := p.parse(flags, args, 1, 2); err != nil {
		return err
	}
	for _, amount := range []string{flags.Arg(0), *total} {
		if _, err := json.Marshal(json.Number(amount)); err != nil {
			return usagef("%q is not a number", amount)
		}
	}
	return p.tell(ctx, "/v1/progress", socket.Progress{Current: json.Number(flags.Arg(0)), Total: json.Number(*total), Message: flags.Arg(1)})
}

var negative = regexp.MustCompile(`^-[0-9.]+$`)

// endOfOptions is where options cannot stand any more.
func endOfOptions(args []string) int {
	if i := slices.Index(args, "--"); i >= 0 {
		return i
	}
	return len(args)
}

func (p *program) state(ctx context.Context, args []string) error {
	flags := p.flagSet("state", "state NAME")
	if err := p.parse(flags, args, 1, 1); err != nil {
		return err
	}
	return p.tell(ctx, "/v1/state", socket.State{Name: flags.Arg(0)})
}

func (p *program) tell(ctx context.Context, path string, body any) error {
	ctx, cancel := within(ctx, tellWithin)
	defer cancel()
	return p.client.call(ctx, http.MethodPost, path, body, nil)
}

func (p *program) result(ctx context.Context, args []string) error {
	flags := p.flagSet("result", "result --json FILE|- | [--text TEXT] [--file PATH[:MIME]]...")
	file := flags.String("json", "", "a `FILE` (- is stdin) with a JSON object: a CallToolResult if it has a content array, else structured content")
	text := flags.String("text", "", "the result as text")
	paths := flags.StringArray("file", nil, "a file to embed, as `PATH[:MIME]`; may be given several times")
	if err := p.parse(flags, args, 0, 0); err != nil {
		return err
	}
	var made json.RawMessage
	var left int64
	var err error
	switch {
	case flags.Changed("json") && (flags.Changed("text") || flags.Changed("file")):
		return usagef("--json has the whole result: it goes with neither --text nor --file")
	case flags.Changed("json"):
		made, left, err = p.jsonResult(*file)
	case flags.Changed("file"):
		files := []result.Embedded{}
		for _, path := range *paths {
			files = append(files, result.ParseFile(path))
		}
		made, left, err = result.Files(*text, files, p.maxResult)
	case flags.Changed("text"):
		made, err = result.Text(*text)
	default:
		return usagef("needs --json, --text or --file")
	}
	if err != nil {
		return err
	}
	path := "/v1/result"
	if left > 0 {
		path += fmt.Sprintf("?size=%d", left)
	}
	return p.finish(ctx, path, made)
}

// jsonResult reads a result. One that is too large is left out, and says so: the work was done all the same. Then left is its size.
func (p *program) jsonResult(path string) (made json.RawMessage, left int64, err error) {
	in, name := p.in, "stdin"
	if path != "-" {
		file, err := os.Open(path) //nolint:gosec // a file of whoever runs the command, who could read it as well
		if err != nil {
			return nil, 0, err
		}
		defer file.Close()
		in, name = file, path
	}
	data, err := io.ReadAll(io.LimitReader(in, p.maxResult+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > p.maxResult {
		size, err := result.Count(data, in)
		if err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", name, err)
		}
		made, err := result.TooLarge(size, p.maxResult)
		return made, size.Bytes, err
	}
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	if made, err = result.FromJSON(data); err != nil {
		return nil, 0, fmt.Errorf("%s %w", name, err)
	}
	return made, 0, nil
}

func (p *program) fail(ctx context.Context, args []string) error {
	flags := p.flagSet("fail", "fail --code N --message TEXT [--data JSON]")
	var code int32
	flags.Var((*codeValue)(&code), "code", "the code of the JSON-RPC error, e.g. -32000")
	message := flags.String("message", "", "what went wrong")
	data := flags.String("data", "", "more about it, as a `JSON` object")
	if err := p.parse(flags, args, 0, 0); err != nil {
		return err
	}
	if !flags.Changed("code") || !flags.Changed("message") {
		return usagef("needs --code and --message")
	}
	failure := report.Error{Code: code, Message: *message}
	if flags.Changed("data") {
		if !json.Valid([]byte(*data)) {
			return errors.New("--data is not JSON")
		}
		failure.Data = json.RawMessage(*data)
	}
	if err := failure.Check(); err != nil {
		return err
	}
	return p.finish(ctx, "/v1/fail", failure)
}

func (p *program) cancelled(ctx context.Context, args []string) error {
	if err := p.parse(p.flagSet("cancelled", "cancelled"), args, 0, 0); err != nil {
		return err
	}
	return p.finish(ctx, "/v1/cancelled", struct{}{})
}

func (p *program) finish(ctx context.Context, path string, body any) error {
	ctx, cancel := within(ctx, finishWithin)
	defer cancel()
	err := p.client.call(ctx, http.MethodPost, path, body, nil)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not stored within %v: the bridge cannot be reached; the sidecar goes on trying", finishWithin)
	}
	return err
}
