package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/examples/invoice/erp"
)

// Tool is the tool that pays.
const Tool = "pay_invoice"

// idempotencyKey is the field of _meta that marks all tries of one call as the same.
const idempotencyKey = "mcptask.dev/idempotencyKey"

// Capabilities are what a client of the tool has to declare: it is asked questions with forms.
var Capabilities = map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}

// tries are the pauses between tries of a request that the bridge did not answer.
var tries = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5, Cap: 4 * time.Second}

// patience is how long one request is tried.
const patience = 2 * time.Minute

// Agent is the MCP client.
type Agent interface {
	CallTool(ctx context.Context, name string, arguments json.RawMessage, options mcpclient.CallOptions) (*mcpclient.CallResult, error)
	GetTask(ctx context.Context, id string) (*mcpclient.Task, error)
	UpdateTask(ctx context.Context, id string, responses map[string]any) error
}

// Stock is the back office.
type Stock interface {
	Reserve(ctx context.Context, reservation erp.Reservation) error
}

// Event is a change that is worth showing.
type Event struct {
	Order, Invoice string
	// What is the status of the task, or what the caller did.
	What string
	// Words say more.
	Words string
}

// Caller places orders.
type Caller struct {
	Agent   Agent
	Stock   Stock
	Journal *Journal
	// ThinkAtLeast and Think are how long a person thinks about a question, at least and at most.
	ThinkAtLeast, Think time.Duration
	// Random decides how long that is for each question, and so in which order the questions are answered.
	Random *rand.Rand
	// Show is called with each change, one at a time.
	Show func(Event)

	mu sync.Mutex // of Random and Show
}

// Place places orders, all at once, and follows each to its end. It ends when all have ended, or with what went wrong
// first; to go on, call it again with the same journal.
func (c *Caller) Place(ctx context.Context, orders []Order) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, order := range orders {
		all.Go(func() error {
			if err := c.place(ctx, order); err != nil {
				return fmt.Errorf("order %s: %w", order.Order, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// place does the two halves of an order side by side.
func (c *Caller) place(ctx context.Context, order Order) error {
	entry, err := c.Journal.begin(order.Order)
	if err != nil {
		return err
	}
	halves, ctx := errgroup.WithContext(ctx)
	halves.Go(func() error { return c.reserve(ctx, order, entry) })
	halves.Go(func() error { return c.pay(ctx, order, entry) })
	return halves.Wait()
}

// reserve is the back office's half.
func (c *Caller) reserve(ctx context.Context, order Order, entry Entry) error {
	if entry.Reserved {
		return nil
	}
	if err := c.Stock.Reserve(ctx, erp.Reservation{Order: order.Order, Items: order.Items}); err != nil {
		return fmt.Errorf("reserving stock: %w", err)
	}
	c.show(order, "reserved", fmt.Sprintf("%d items are kept in stock", order.Items))
	_, err := c.Journal.change(order.Order, func(e *Entry) { e.Reserved = true })
	return err
}

// pay is the tool's half.
func (c *Caller) pay(ctx context.Context, order Order, entry Entry) error {
	if entry.Outcome != "" {
		return nil
	}
	if entry.Task == "" {
		task, err := c.call(ctx, order, entry)
		if err != nil {
			return err
		}
		if entry, err = c.Journal.change(order.Order, func(e *Entry) { e.Task = task.ID }); err != nil {
			return err
		}
		c.show(order, "called", "task "+task.ID)
	} else {
		c.show(order, "resumed", "task "+entry.Task)
	}
	task, err := c.follow(ctx, order, entry.Task)
	if err != nil {
		return err
	}
	outcome, detail, err := outcomeOf(task)
	if err != nil {
		return err
	}
	_, err = c.Journal.change(order.Order, func(e *Entry) { e.Outcome, e.Detail = outcome, detail })
	return err
}

// call calls the tool. The key makes it safe to call again: after an answer that was lost, and after the caller's own end.
func (c *Caller) call(ctx context.Context, order Order, entry Entry) (*mcpclient.Task, error) {
	arguments, err := order.arguments()
	if err != nil {
		return nil, err
	}
	var called *mcpclient.CallResult
	err = insist(ctx, func(ctx context.Context) (err error) {
		called, err = c.Agent.CallTool(ctx, Tool, arguments, mcpclient.CallOptions{Meta: map[string]any{idempotencyKey: entry.Call}})
		return err
	})
	if err != nil {
		return nil, err
	}
	if called.Task == nil {
		return nil, fmt.Errorf("%s answered without a task: is its taskSupport Required?", Tool)
	}
	return called.Task, nil
}

// follow looks at a task until it has ended, and has its questions answered.
func (c *Caller) follow(ctx context.Context, order Order, id string) (task *mcpclient.Task, err error) {
	answers, ctx := errgroup.WithContext(ctx)
	answering := map[string]bool{}
	var last Event
	for {
		err := insist(ctx, func(ctx context.Context) (err error) {
			task, err = c.Agent.GetTask(ctx, id)
			return err
		})
		if err != nil {
			return nil, errors.Join(err, answers.Wait())
		}
		if now := (Event{What: string(task.Status), Words: task.StatusMessage}); now != last {
			c.show(order, now.What, now.Words)
			last = now
		}
		if task.Status.Terminal() {
			return task, answers.Wait()
		}
		for key, question := range task.InputRequests {
			if !answering[key] {
				answering[key] = true
				answers.Go(func() error { return c.answer(ctx, order, id, key, question) })
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), answers.Wait())
		case <-time.After(pollInterval(task)):
		}
	}
}

// pollInterval is how often the server wants to be asked.
func pollInterval(task *mcpclient.Task) time.Duration {
	if task.PollIntervalMs <= 0 {
		return time.Second
	}
	return time.Duration(task.PollIntervalMs) * time.Millisecond
}

// answer has the person think about a question and gives the answer. Giving it twice changes nothing: the first one stands.
func (c *Caller) answer(ctx context.Context, order Order, id, key string, question mcpclient.InputRequest) error {
	response, err := order.Decision.response(question)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(c.thought()):
	}
	if err := insist(ctx, func(ctx context.Context) error { return c.Agent.UpdateTask(ctx, id, map[string]any{key: response}) }); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	text, err := json.Marshal(response)
	if err != nil {
		return err
	}
	c.show(order, "answered", string(text))
	return nil
}

// thought is how long a person thinks.
func (c *Caller) thought() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ThinkAtLeast + time.Duration(c.Random.Float64()*float64(c.Think-c.ThinkAtLeast))
}

func (c *Caller) show(order Order, what, words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Show(Event{Order: order.Order, Invoice: order.Invoice, What: what, Words: words})
}

// insist repeats what may be repeated until the bridge answers.
func insist(ctx context.Context, request func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var last error
	err := tries.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		last = request(ctx)
		if last == nil || passing(last) {
			return last == nil, nil
		}
		return false, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// passing says whether the same request may be answered in a moment.
func passing(err error) bool {
	var refused *mcpclient.RPCError
	if errors.As(err, &refused) {
		return refused.HTTPStatus == http.StatusTooManyRequests || refused.HTTPStatus >= http.StatusInternalServerError
	}
	return errors.Is(err, mcpclient.ErrNoAnswer)
}
