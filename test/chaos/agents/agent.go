// Package agents are the clients of a chaos run. They speak both revisions of MCP, written against the specification and with
// nothing of the product in them, and record whatever they were told.
package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// wire is a revision of the protocol. Each method sends one request, to any replica, and says what came of it.
type wire interface {
	call(context.Context, record.Call) record.Call
	get(ctx context.Context, task string) record.Read
	result(ctx context.Context, task string) (read record.Read, separate bool)
	answer(ctx context.Context, a record.Answer, id json.RawMessage) record.Answer
	cancel(context.Context, record.Cancel) record.Cancel
	watch(ctx context.Context, task string, asked func(string, record.Question, json.RawMessage))
}

// Agent calls tools and sees its tasks through to their end and beyond.
type Agent struct {
	name, era string
	kinds     []string
	log       *record.Log
	wire      wire
	// peer is the same caller in the other revision.
	peer   *Agent
	random *rand.Rand

	mu      sync.Mutex
	calls   int
	deck    []string
	answers map[record.Question]bool // by task and key: being answered
	ended   map[string]bool
	working sync.WaitGroup
}

// Config of the agents of one account.
type Config struct {
	Account  string
	Token    string
	Path     string
	Replicas func() []string
	Kinds    []string
	Seed     uint64
	Log      *record.Log
}

// Pair is the agents of one account, one in each revision. The context ends their streams.
func Pair(ctx context.Context, c Config) (newer, older *Agent) {
	agent := func(era string, salt uint64) *Agent {
		return &Agent{
			name: c.Account + "/" + era, era: era, kinds: c.Kinds, log: c.Log, random: rand.New(rand.NewPCG(c.Seed, salt)),
			answers: map[record.Question]bool{}, ended: map[string]bool{},
		}
	}
	newer, older = agent(record.Modern, 1), agent(record.Legacy, 2)
	newer.peer, older.peer = older, newer
	newer.wire = &modern{caller: newCaller(c.Replicas, c.Path, c.Token), name: newer.name, log: c.Log}
	speaks := &legacy{caller: newCaller(c.Replicas, c.Path, c.Token), name: older.name, log: c.Log,
		asked: func(task string, q record.Question, id json.RawMessage) { older.asked(ctx, task, q, id) }}
	older.wire = speaks
	go speaks.listen(ctx)
	return newer, older
}

// Place makes calls, a number of them at a time, until placing ends, and follows their tasks until they are gone or the
// context ends. It returns then.
func (a *Agent) Place(ctx, placing context.Context, atOnce int) {
	for range atOnce {
		a.working.Go(func() {
			for placing.Err() == nil {
				a.one(ctx, placing)
				pause(placing, a.between(200*time.Millisecond, 2*time.Second))
			}
		})
	}
	a.working.Wait()
}

// one makes one call and follows its task to its end; what comes after goes on beside the next call.
func (a *Agent) one(ctx, placing context.Context) {
	task, kind := a.call(ctx)
	if task == "" {
		pause(placing, time.Second)
		return
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if a.chance(0.4) {
		a.working.Go(func() {
			a.wire.watch(watching, task, func(task string, q record.Question, id json.RawMessage) { a.asked(ctx, task, q, id) })
		})
	}
	if kind == "cancelled" {
		after := a.between(time.Second, 12*time.Second)
		a.working.Go(func() { a.cancel(ctx, task, after) })
	}
	if a.follow(ctx, task) {
		a.working.Go(func() { a.keep(ctx, task) })
	}
}

// call places one call. A call with a key is tried until it is answered, some of them twice; one without is not tried again.
func (a *Agent) call(ctx context.Context) (task, kind string) {
	a.mu.Lock()
	a.calls++
	kind = a.deal()
	c := record.Call{Client: a.name, Era: a.era, ID: fmt.Sprintf("%s/%d", a.name, a.calls), Kind: kind, Nonce: fmt.Sprintf("%08x", a.random.Uint32())}
	// What needs somebody who answers or cancels would never end if its handle were lost.
	c.Keyed = kind == "asking" || kind == "releasing" || kind == "cancelled" || a.random.Float64() < 0.7
	twice := c.Keyed && a.random.Float64() < 0.2
	a.mu.Unlock()
	for ctx.Err() == nil {
		tried := a.wire.call(ctx, c)
		a.log.Call(tried)
		if tried.Task != "" && twice {
			a.log.Call(a.wire.call(ctx, c))
		}
		if tried.Task != "" || !c.Keyed {
			return tried.Task, kind
		}
		pause(ctx, a.between(300*time.Millisecond, time.Second))
	}
	return "", kind
}

// deal chooses a kind: each comes once before any comes again.
func (a *Agent) deal() string {
	if len(a.deck) == 0 {
		a.deck = slices.Clone(a.kinds)
		a.random.Shuffle(len(a.deck), func(i, j int) { a.deck[i], a.deck[j] = a.deck[j], a.deck[i] })
	}
	kind := a.deck[0]
	a.deck = a.deck[1:]
	return kind
}

// look asks for the task, now and then as the same caller in the other revision, too.
func (a *Agent) look(ctx context.Context, task string) record.Read {
	if a.chance(0.1) {
		if read := a.peer.wire.get(ctx, task); ctx.Err() == nil {
			a.log.Read(read)
		}
	}
	read := a.wire.get(ctx, task)
	if ctx.Err() == nil {
		a.log.Read(read)
	}
	for _, q := range read.Questions {
		a.asked(ctx, task, q, nil)
	}
	return read
}

// follow polls until the task has ended. It says whether it was seen to end.
func (a *Agent) follow(ctx context.Context, task string) bool {
	for ctx.Err() == nil {
		read := a.look(ctx, task)
		if terminal(read.Status) || read.Unknown {
			a.mu.Lock()
			a.ended[task] = true
			a.mu.Unlock()
			return true
		}
		pause(ctx, a.between(700*time.Millisecond, 1300*time.Millisecond))
	}
	return false
}

// keep looks at an ended task, and at its result, until it is gone.
func (a *Agent) keep(ctx context.Context, task string) {
	for ctx.Err() == nil {
		if read, separate := a.wire.result(ctx, task); separate && ctx.Err() == nil {
			a.log.Read(read)
		}
		if a.look(ctx, task).Unknown {
			return
		}
		pause(ctx, a.between(3*time.Second, 6*time.Second))
	}
}

// longThought is how long some answers take: the Pod of a tool with whileWaiting: Release is gone by then.
const longThought = 15 * time.Second

// asked answers a question once, after a while, until the answer is acknowledged. Some answers are followed by another one,
// which must change nothing.
func (a *Agent) asked(ctx context.Context, task string, q record.Question, id json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mark := record.Question{Key: q.Key, Message: task}
	if a.answers[mark] {
		return
	}
	a.answers[mark] = true
	think := time.Duration(a.random.Float64() * float64(5*time.Second))
	if a.random.Float64() < 0.3 {
		think += longThought
	}
	value, late := fmt.Sprintf("%08x", a.random.Uint32()), a.random.Float64() < 0.3
	answer := record.Answer{Client: a.name, Era: a.era, Task: task, Question: q, Value: value}
	go func() { // not waited for: what matters of it is over when the task is
		pause(ctx, think)
		for ctx.Err() == nil && !a.hasEnded(task) {
			tried := a.wire.answer(ctx, answer, id)
			a.log.Answer(tried)
			if tried.Acknowledged {
				break
			}
			pause(ctx, 500*time.Millisecond)
		}
		if late && ctx.Err() == nil {
			answer.Value, answer.Late = "late", true
			a.log.Answer(a.wire.answer(ctx, answer, id))
		}
	}()
}

func (a *Agent) hasEnded(task string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended[task]
}

// cancel asks for the end of a task until that is acknowledged.
func (a *Agent) cancel(ctx context.Context, task string, after time.Duration) {
	pause(ctx, after)
	for ctx.Err() == nil && !a.hasEnded(task) {
		tried := a.wire.cancel(ctx, record.Cancel{Client: a.name, Era: a.era, Task: task})
		a.log.Cancel(tried)
		if tried.Acknowledged {
			return
		}
		pause(ctx, 500*time.Millisecond)
	}
}

func (a *Agent) between(least, most time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return least + time.Duration(a.random.Int64N(int64(most-least)))
}

func (a *Agent) chance(p float64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random.Float64() < p
}
