package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptask/mcptask/examples/invoice/erp"
	"github.com/mcptask/mcptask/examples/invoice/erpclient"
	"github.com/mcptask/mcptask/examples/invoice/taskcli"
)

// fakeTask is a task whose person has made up their mind.
type fakeTask struct {
	mu      sync.Mutex
	states  []string
	asked   []string
	actions []taskcli.Action
	answers []string
}

func (f *fakeTask) State(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = append(f.states, name)
	return errors.New("nobody is there to see it") // which is no reason to stop
}

func (f *fakeTask) Ask(_ context.Context, message string, _, content any) (taskcli.Action, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, message)
	n := len(f.asked) - 1
	if n >= len(f.actions) {
		return "", fmt.Errorf("unexpected question %q", message)
	}
	if f.actions[n] != taskcli.Accept {
		return f.actions[n], nil
	}
	return taskcli.Accept, json.Unmarshal([]byte(f.answers[n]), content)
}

func approving() *fakeTask {
	return &fakeTask{actions: []taskcli.Action{taskcli.Accept}, answers: []string{`{"approve":true}`}}
}

var books = erp.Books{
	"INV-1": {Invoice: "INV-1", Vendor: "Acme", Amount: 125000, Currency: "EUR"},
	"INV-2": {Invoice: "INV-2", Vendor: "Acme", Amount: 120500, Currency: "EUR"},
}

func ledger(t *testing.T) *erp.Ledger {
	t.Helper()
	l, err := erp.OpenLedger(filepath.Join(t.TempDir(), "record"), books)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

const clientTimeout = 300 * time.Millisecond

func worker(t *testing.T, url string, task Task) *Work {
	t.Helper()
	return &Work{Task: task, ERP: erpclient.New(url, clientTimeout), TaskID: "t1", By: "pod-1", Tolerance: 100, Warn: func(err error) { t.Log(err) }}
}

func TestWays(t *testing.T) {
	for _, c := range []struct {
		name    string
		request Request
		actions []taskcli.Action
		answers []string
		states  []string
		result  Result
		pays    string
		err     error
	}{
		{
			"approved", Request{"INV-1", "Acme", "EUR", 125000}, []taskcli.Action{"accept"}, []string{`{"approve":true,"comment":"fine"}`},
			[]string{"validating", "awaiting_approval", "reconciling", "paying", "paid"}, Result{Status: Paid}, "1250.00", nil,
		},
		{
			"within the tolerance", Request{"INV-1", "Acme", "EUR", 125100}, []taskcli.Action{"accept"}, []string{`{"approve":true}`},
			[]string{"validating", "awaiting_approval", "reconciling", "paying", "paid"}, Result{Status: Paid}, "1251.00", nil,
		},
		{
			"the ERP's amount chosen", Request{"INV-2", "Acme", "EUR", 125000}, []taskcli.Action{"accept", "accept"}, []string{`{"approve":true}`, `{"amount":"1205.00"}`},
			[]string{"validating", "awaiting_approval", "reconciling", "awaiting_correction", "paying", "paid"}, Result{Status: Paid}, "1205.00", nil,
		},
		{
			"the invoice's amount chosen", Request{"INV-2", "Acme", "EUR", 125000}, []taskcli.Action{"accept", "accept"}, []string{`{"approve":true}`, `{"amount":"1250.00"}`},
			[]string{"validating", "awaiting_approval", "reconciling", "awaiting_correction", "paying", "paid"}, Result{Status: Paid}, "1250.00", nil,
		},
		{
			"not approved", Request{"INV-1", "Acme", "EUR", 125000}, []taskcli.Action{"accept"}, []string{`{"approve":false,"comment":"too much"}`},
			[]string{"validating", "awaiting_approval", "declined"}, Result{Status: Declined, Reason: "too much"}, "", nil,
		},
		{
			"declined", Request{"INV-1", "Acme", "EUR", 125000}, []taskcli.Action{"decline"}, nil,
			[]string{"validating", "awaiting_approval", "declined"}, Result{Status: Declined}, "", nil,
		},
		{
			"no amount is right", Request{"INV-2", "Acme", "EUR", 125000}, []taskcli.Action{"accept", "decline"}, []string{`{"approve":true}`},
			[]string{"validating", "awaiting_approval", "reconciling", "awaiting_correction", "declined"}, Result{Status: Declined, Reason: "neither amount is right"}, "", nil,
		},
		{
			"closed", Request{"INV-1", "Acme", "EUR", 125000}, []taskcli.Action{"cancel"}, nil,
			[]string{"validating", "awaiting_approval"}, Result{}, "", ErrCancelled,
		},
		{
			"closed the second time", Request{"INV-2", "Acme", "EUR", 125000}, []taskcli.Action{"accept", "cancel"}, []string{`{"approve":true}`},
			[]string{"validating", "awaiting_approval", "reconciling", "awaiting_correction"}, Result{}, "", ErrCancelled,
		},
		{
			"unknown", Request{"INV-9", "Acme", "EUR", 125000}, nil, nil,
			[]string{"validating", "rejected"}, Result{Status: Rejected, Reason: "the ERP knows no invoice INV-9"}, "", nil,
		},
		{
			"another vendor", Request{"INV-1", "Axme", "EUR", 125000}, nil, nil,
			[]string{"validating", "rejected"}, Result{Status: Rejected, Reason: "the ERP has INV-1 from another vendor"}, "", nil,
		},
		{
			"another currency", Request{"INV-1", "Acme", "USD", 125000}, nil, nil,
			[]string{"validating", "rejected"}, Result{Status: Rejected, Reason: "the ERP has INV-1 in EUR, not in USD"}, "", nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := ledger(t)
			task := &fakeTask{actions: c.actions, answers: c.answers}
			work := worker(t, serve(t, erp.NewServer(l, erp.Faults{Seed: 3, Busy: 0.5}).Handler()), task)
			result, err := work.Do(t.Context(), c.request)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err == nil && (result.Invoice != c.request.Invoice || result.Status != c.result.Status || result.Reason != c.result.Reason) {
				t.Errorf("result %+v, want %+v", result, c.result)
			}
			if !slices.Equal(task.states, c.states) {
				t.Errorf("states %v, want %v", task.states, c.states)
			}
			if len(task.asked) != len(c.actions) {
				t.Errorf("asked %q", task.asked)
			}
			var made string
			for _, p := range l.Payments(c.request.Invoice) {
				made += p.Amount.String()
			}
			if made != c.pays {
				t.Errorf("paid %q, want %q", made, c.pays)
			}
			if c.pays != "" && (result.PaidAmount.String() != c.pays || result.PaymentKey != "t1/"+c.request.Invoice || result.Currency != "EUR") {
				t.Errorf("result %+v", result)
			}
		})
	}
}

func TestOnePaymentWhateverTheERPAnswers(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			l := ledger(t)
			url := serve(t, erp.NewServer(l, erp.Faults{Seed: seed, Busy: 0.4, Accidents: true, Hang: 2 * clientTimeout}).Handler())
			result, err := worker(t, url, approving()).Do(t.Context(), Request{"INV-1", "Acme", "EUR", 125000})
			if err != nil || result.Status != Paid {
				t.Fatalf("%v, %v", result, err)
			}
			if made := l.Payments("INV-1"); len(made) != 1 {
				t.Errorf("payments %+v", made)
			}
			claims := 0
			for _, entry := range l.Record() {
				if entry.Claim != nil {
					claims++
				}
			}
			if claims < 2 {
				t.Error("the accident left no doubt: one claim was enough")
			}
		})
	}
}

// The first attempt's payment is under way, for instance in a network that is slow, when its Pod is gone and the next attempt
// pays. What arrives late must not count.
func TestPaymentThatArrivesLateIsRefused(t *testing.T) {
	l := ledger(t)
	handler := erp.NewServer(l, erp.Faults{}).Handler()
	arrived, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/payments" {
			held := false
			once.Do(func() { held = true })
			if held {
				close(arrived)
				<-goOn
			}
		}
		handler.ServeHTTP(w, r)
	}))
	request := Request{"INV-1", "Acme", "EUR", 125000}
	first := worker(t, url, approving())
	first.ERP = erpclient.New(url, time.Minute)
	ended := make(chan error, 1)
	go func() {
		result, err := first.Do(t.Context(), request)
		if err == nil && result.Status != Paid {
			err = fmt.Errorf("the first attempt ends with %s", result)
		}
		ended <- err
	}()
	<-arrived
	second := worker(t, url, approving())
	second.By = "pod-2"
	if result, err := second.Do(t.Context(), request); err != nil || result.Status != Paid {
		t.Fatalf("%v, %v", result, err)
	}
	close(goOn)
	if err := <-ended; err != nil { // it sees that the task's payment is made
		t.Error(err)
	}
	if made := l.Payments("INV-1"); len(made) != 1 || made[0].By != "pod-2" {
		t.Errorf("payments %+v", made)
	}
}

func TestInvoiceOfAnotherTaskIsNotPaidAgain(t *testing.T) {
	l := ledger(t)
	url := serve(t, erp.NewServer(l, erp.Faults{}).Handler())
	request := Request{"INV-1", "Acme", "EUR", 125000}
	results := make(chan *Result, 2)
	for _, id := range []string{"t1", "t2"} {
		go func() {
			work := worker(t, url, approving())
			work.TaskID = id
			result, err := work.Do(t.Context(), request)
			if err != nil {
				t.Error(err)
			}
			results <- result
		}()
	}
	statuses := []string{}
	for range 2 {
		if result := <-results; result != nil {
			statuses = append(statuses, string(result.Status))
			if result.Status == Rejected && !strings.Contains(result.Reason, "was paid before") {
				t.Errorf("%+v", result)
			}
		}
	}
	slices.Sort(statuses)
	if !slices.Equal(statuses, []string{"paid", "rejected"}) || len(l.Payments("INV-1")) != 1 {
		t.Errorf("%v; payments %+v", statuses, l.Payments("INV-1"))
	}
}

// A Pod that is told to stop begins no payment, and leaves none in the dark.
func TestStop(t *testing.T) {
	for path, paid := range map[string]int{"/invoices/INV-1": 0, "/invoices/INV-1/claims": 0, "/invoices/INV-1/payments": 0, "/payments": 1} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			l := ledger(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			handler := erp.NewServer(l, erp.Faults{}).Handler()
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == path {
					stop()
				}
				handler.ServeHTTP(w, r)
			}))
			result, err := worker(t, url, approving()).Do(ctx, Request{"INV-1", "Acme", "EUR", 125000})
			if made := l.Payments("INV-1"); len(made) != paid {
				t.Errorf("payments %+v", made)
			}
			if paid == 0 && !errors.Is(err, context.Canceled) || paid == 1 && (err != nil || result.Status != Paid) {
				t.Errorf("%v, %v", result, err)
			}
		})
	}
}
