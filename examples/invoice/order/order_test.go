package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/examples/invoice/erp"
)

// fakeAgent is a bridge whose tasks end once all their questions are answered.
type fakeAgent struct {
	mu       sync.Mutex
	byKey    map[string]string // tasks by idempotency key
	tasks    map[string]*mcpclient.Task
	answered []string
	unwell   int // how many more requests are answered with 503, after they were carried out
}

const (
	approve = `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"approve":{"type":"boolean"},"comment":{"type":"string"}}}}`
	amount  = `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"amount":{"type":"string"}}}}`
)

func newAgent() *fakeAgent {
	return &fakeAgent{byKey: map[string]string{}, tasks: map[string]*mcpclient.Task{}}
}

func (f *fakeAgent) answer() error {
	if f.unwell > 0 {
		f.unwell--
		return &mcpclient.RPCError{HTTPStatus: http.StatusServiceUnavailable}
	}
	return nil
}

func (f *fakeAgent) CallTool(_ context.Context, _ string, arguments json.RawMessage, options mcpclient.CallOptions) (*mcpclient.CallResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := options.Meta["mcptask.dev/idempotencyKey"].(string)
	id := f.byKey[key]
	if id == "" {
		var given struct{ Invoice string }
		if err := json.Unmarshal(arguments, &given); err != nil {
			return nil, err
		}
		id = "task-" + given.Invoice
		f.byKey[key] = id
		f.tasks[id] = &mcpclient.Task{ID: id, Status: mcpclient.InputRequired, PollIntervalMs: 5, InputRequests: map[string]mcpclient.InputRequest{
			id + "-1": {Params: json.RawMessage(approve)}, id + "-2": {Params: json.RawMessage(amount)},
		}}
	}
	return &mcpclient.CallResult{Task: f.tasks[id]}, f.answer()
}

func (f *fakeAgent) GetTask(_ context.Context, id string) (*mcpclient.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := *f.tasks[id]
	shown.InputRequests = maps.Clone(shown.InputRequests)
	return &shown, f.answer()
}

func (f *fakeAgent) UpdateTask(_ context.Context, id string, responses map[string]any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, response := range responses {
		task := f.tasks[id]
		if _, open := task.InputRequests[key]; !open {
			continue
		}
		delete(task.InputRequests, key)
		text, err := json.Marshal(response)
		if err != nil {
			return err
		}
		f.answered = append(f.answered, key+" "+string(text))
		if len(task.InputRequests) == 0 {
			task.Status = mcpclient.Completed
			task.Result = &mcpclient.ToolResult{StructuredContent: json.RawMessage(`{"invoice":"` + strings.TrimPrefix(id, "task-") + `","status":"declined"}`)}
		}
	}
	return f.answer()
}

// stock is the back office.
type stock struct {
	mu       sync.Mutex
	reserved map[string]int
}

func (s *stock) Reserve(_ context.Context, r erp.Reservation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved[r.Order]++
	return nil
}

func orders(n int) (all []Order) {
	for i := range n {
		all = append(all, Order{Order: fmt.Sprint("PO-", i), Items: i + 1, Invoice: fmt.Sprint("INV-", i), Vendor: "V", Amount: 100, Currency: "EUR",
			Decision: Decision{Approve: i%2 == 0, Comment: "c"}})
	}
	return all
}

func caller(t *testing.T, agent Agent, stock Stock, path string) *Caller {
	t.Helper()
	journal, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Caller{Agent: agent, Stock: stock, Journal: journal, Think: 50 * time.Millisecond, Random: rand.New(rand.NewPCG(1, 1)), Show: func(Event) {}}
}

func TestSeveralAtOnceAnsweredInAnyOrder(t *testing.T) {
	agent, office := newAgent(), &stock{reserved: map[string]int{}}
	c := caller(t, agent, office, filepath.Join(t.TempDir(), "journal"))
	agent.unwell = 5
	all := orders(6)
	if err := c.Place(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if len(agent.tasks) != 6 || len(agent.answered) != 12 || slices.IsSorted(agent.answered) {
		t.Errorf("%d tasks, answers %v", len(agent.tasks), agent.answered)
	}
	for _, o := range all {
		entry, _ := c.Journal.Entry(o.Order)
		if entry.Outcome != Declined || !entry.Reserved || office.reserved[o.Order] != 1 {
			t.Errorf("%s: %+v, reserved %d times", o.Order, entry, office.reserved[o.Order])
		}
		want := fmt.Sprintf(`task-%s-1 {"action":"accept","content":{"approve":%t,"comment":"c"}}`, o.Invoice, o.Decision.Approve)
		if !slices.Contains(agent.answered, want) {
			t.Errorf("%q is not among %q", want, agent.answered)
		}
	}
}

// A caller that ends at any moment leaves orders that another one takes up, and no order is placed twice.
func TestCallerGoesOnAfterItsEnd(t *testing.T) {
	agent, office := newAgent(), &stock{reserved: map[string]int{}}
	path := filepath.Join(t.TempDir(), "journal")
	all := orders(4)
	for after := 1; ; after++ {
		ctx, end := context.WithCancel(t.Context())
		c := caller(t, agent, office, path)
		changes := 0
		c.Show = func(Event) {
			if changes++; changes >= after {
				end()
			}
		}
		err := c.Place(ctx, all)
		end()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if after > 100 {
			t.Fatal("it never comes to an end")
		}
	}
	if len(agent.tasks) != 4 || len(agent.byKey) != 4 {
		t.Errorf("%d tasks of %d calls", len(agent.tasks), len(agent.byKey))
	}
	if len(agent.answered) != 8 {
		t.Errorf("answered %v", agent.answered)
	}
}

func TestOutcomes(t *testing.T) {
	for text, want := range map[string]Outcome{
		`{"taskId":"t","status":"completed","result":{"content":[],"structuredContent":{"invoice":"I","status":"paid","paidAmount":"1.00","currency":"EUR","paymentKey":"k"}}}`: Paid,
		`{"taskId":"t","status":"completed","result":{"content":[],"structuredContent":{"invoice":"I","status":"declined"}}}`:                                                   Declined,
		`{"taskId":"t","status":"completed","result":{"content":[],"structuredContent":{"invoice":"I","status":"rejected"},"isError":true}}`:                                    ToClarify,
		`{"taskId":"t","status":"completed","result":{"content":[{"type":"text","text":"exit code 1"}],"isError":true}}`:                                                        Broken,
		`{"taskId":"t","status":"completed","result":{"content":[],"structuredContent":{"status":"lost"}}}`:                                                                     "",
		`{"taskId":"t","status":"failed","error":{"code":-32603,"message":"no node"}}`:                                                                                          Broken,
		`{"taskId":"t","status":"cancelled"}`: Withdrawn,
		`{"taskId":"t","status":"working"}`:   "",
	} {
		var task mcpclient.Task
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			t.Fatal(err)
		}
		if got, words, err := outcomeOf(&task); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q %q %v, want %q", text, got, words, err, want)
		}
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	order := Order{Order: "PO-1", Invoice: "INV-1", Items: 2}
	paid := func(key string) erp.Entry {
		return erp.Entry{Payment: &erp.Payment{Key: key, Invoice: "INV-1", Amount: 100}}
	}
	refused := erp.Entry{Payment: &erp.Payment{Key: "t1/INV-1", Invoice: "INV-1", Amount: 100}, Refused: "late"}
	stocked := erp.Entry{Reservation: &erp.Reservation{Order: "PO-1", Items: 2}}
	for _, c := range []struct {
		outcome Outcome
		record  []erp.Entry
		fault   string
	}{
		{Paid, []erp.Entry{stocked, paid("t1/INV-1"), refused}, ""},
		{Declined, []erp.Entry{stocked}, ""},
		{"", []erp.Entry{stocked}, "has not ended"},
		{Paid, []erp.Entry{stocked}, "exactly one"},
		{Paid, []erp.Entry{stocked, paid("t1/INV-1"), paid("t1/INV-1")}, "exactly one"},
		{Paid, []erp.Entry{stocked, refused}, "exactly one"},
		{Paid, []erp.Entry{stocked, paid("t2/INV-1")}, "another key"},
		{Declined, []erp.Entry{stocked, paid("t1/INV-1")}, "no payment"},
		{Paid, []erp.Entry{paid("t1/INV-1")}, "no stock"},
	} {
		journal := &Journal{entries: map[string]Entry{"PO-1": {Task: "t1", Outcome: c.outcome}}}
		var said strings.Builder
		wrong, err := Verify(&said, []Order{order}, journal, c.record)
		if err != nil || (wrong == 0) != (c.fault == "") || !strings.Contains(said.String(), c.fault) {
			t.Errorf("%+v: %d wrong, %v\n%s", c, wrong, err, said.String())
		}
	}
}
