// Package work is what the tools of the chaos runs do in their Pods. Every deed is told to a recorder outside of the cluster
// before the work goes on. It knows nothing of mcptask but what docs/runtime.md tells the authors of tools.
package work

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// The kinds of work.
const (
	Short     = "short"
	Long      = "long"
	Asking    = "asking"
	Releasing = "releasing"
	Large     = "large"
	Failing   = "failing"
	Cancelled = "cancelled" // goes on until it is told to end
	Retrying  = "retrying"  // its first attempt fails
)

// What work does.
const (
	Started  = "start"
	Effect   = "effect" // something that must not happen twice; the detail says what
	Answered = "answer" // an answer reached the work: the detail is QUESTION=VALUE
	Told     = "told"   // it was told to end
	Done     = "done"
)

// Questions is how many an asking work has.
const Questions = 2

// Steps is how many effects a long work has.
const Steps = 4

// Deed is what is sent to the recorder.
type Deed struct {
	Task, Pod, Run, Kind, Nonce string
	Ordinal                     int
	What, Detail                string
}

// Receipt is its answer: how often the task's work has started so far.
type Receipt struct{ Starts int }

// Run is the program: KIND NONCE.
func Run(args []string) int {
	if len(args) != 2 {
		fmt.Println("usage: chaos KIND NONCE")
		return 2
	}
	p := &process{kind: args[0], nonce: args[1], run: rand.Text(), terminated: make(chan os.Signal, 1)}
	signal.Notify(p.terminated, syscall.SIGTERM)
	behave, ok := map[string]func() (any, error){
		Short: p.short, Long: p.long, Asking: p.asking, Releasing: p.asking, Large: p.large, Failing: p.short, Cancelled: p.endless, Retrying: p.long,
	}[p.kind]
	if !ok {
		fmt.Println("no such kind of work:", p.kind)
		return 2
	}
	starts := p.tell(Started, "").Starts
	if p.kind == Retrying && starts == 1 {
		fmt.Println("the first attempt fails")
		return 1
	}
	result, err := behave()
	var ended told
	switch {
	case errors.As(err, &ended):
		fmt.Println("told to end")
		return 143
	case err != nil:
		fmt.Println(err)
		return 1
	}
	p.tell(Done, "")
	if p.kind == Failing {
		fmt.Println("refused", p.nonce)
		return 3
	}
	if result == nil {
		return 0
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// told is the error of work that was told to end.
type told struct{}

func (told) Error() string { return "told to end" }

type process struct {
	kind, nonce, run string
	ordinal          int
	terminated       chan os.Signal
}

// tell brings a deed to the recorder, however long that takes: until then it has not been done.
func (p *process) tell(what, detail string) Receipt {
	p.ordinal++
	deed, err := json.Marshal(Deed{
		Task: os.Getenv("MCPTASK_TASK_ID"), Pod: os.Getenv("CHAOS_POD"), Run: p.run, Kind: p.kind, Nonce: p.nonce,
		Ordinal: p.ordinal, What: what, Detail: detail,
	})
	if err != nil {
		panic(err) // strings and a number
	}
	recorder := &http.Client{Timeout: 2 * time.Second}
	for {
		var receipt Receipt
		answer, err := recorder.Post(os.Getenv("CHAOS_RECORDER"), "application/json", bytes.NewReader(deed))
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&receipt)
			_ = answer.Body.Close() // it was read
			if err == nil && answer.StatusCode == http.StatusOK {
				return receipt
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// wait passes time, unless the work is told to end.
func (p *process) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-p.terminated:
		p.tell(Told, "")
		return told{}
	}
}

func (p *process) short() (any, error) {
	p.tell(Effect, "paid")
	return map[string]any{"nonce": p.nonce}, nil
}

func (p *process) long() (any, error) {
	for step := range Steps {
		if err := p.wait(2 * time.Second); err != nil {
			return nil, err
		}
		p.tell(Effect, fmt.Sprintf("step %d", step+1))
	}
	return map[string]any{"nonce": p.nonce, "steps": Steps}, nil
}

func (p *process) endless() (any, error) {
	p.tell(Effect, "begun")
	return map[string]any{"nonce": p.nonce}, p.wait(10 * time.Minute)
}

// Question is the text of a question.
func Question(nonce string, n int) string { return fmt.Sprintf("Question %d of %s?", n, nonce) }

func (p *process) asking() (any, error) {
	var answers []string
	for n := range Questions {
		value, err := p.ask(Question(p.nonce, n+1))
		if err != nil {
			return nil, err
		}
		p.tell(Answered, fmt.Sprintf("%d=%s", n+1, value))
		answers = append(answers, value)
	}
	p.tell(Effect, "decided")
	return map[string]any{"nonce": p.nonce, "answers": answers}, nil
}

const form = `{"type":"object","properties":{"value":{"type":"string"}},"required":["value"]}`

// ask puts a question and waits for its answer.
func (p *process) ask(message string) (string, error) {
	asking := exec.Command("/mcptask/bin/task", "ask", "--message", message, "--schema", form)
	var out bytes.Buffer
	asking.Stdout, asking.Stderr = &out, os.Stderr
	if err := asking.Start(); err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- asking.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return "", fmt.Errorf("ask: %w", err)
		}
	case <-p.terminated:
		p.tell(Told, "")
		return "", errors.Join(told{}, asking.Process.Kill())
	}
	var answer struct {
		Action  string
		Content struct{ Value string }
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return "", fmt.Errorf("ask: the answer %q: %w", out.String(), err)
	}
	if answer.Action != "accept" {
		return "", fmt.Errorf("ask: the answer is %s", answer.Action)
	}
	return answer.Content.Value, nil
}

// LargeBytes is the size of the text in a large result.
const LargeBytes = 100 << 10

// LargeText is the text of a large result, which does not compress and depends on the nonce.
func LargeText(nonce string) string {
	var text strings.Builder
	sum := sha256.Sum256([]byte(nonce))
	for text.Len() < LargeBytes {
		text.WriteString(hex.EncodeToString(sum[:]))
		sum = sha256.Sum256(sum[:])
	}
	return text.String()[:LargeBytes]
}

// large hands over its result through the runtime.
func (p *process) large() (any, error) {
	p.tell(Effect, "measured")
	result, err := json.Marshal(map[string]any{"nonce": p.nonce, "text": LargeText(p.nonce)})
	if err != nil {
		return nil, err
	}
	handing := exec.Command("/mcptask/bin/task", "result", "--json", "-")
	handing.Stdin, handing.Stdout, handing.Stderr = bytes.NewReader(result), os.Stdout, os.Stderr
	if err := handing.Run(); err != nil {
		return nil, fmt.Errorf("hand over the result: %w", err)
	}
	return nil, nil
}
