package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcptask/mcptask/examples/invoice/erp"
	"github.com/mcptask/mcptask/examples/invoice/erpclient"
	"github.com/mcptask/mcptask/examples/invoice/money"
)

// rounds are the pauses between two claims on an invoice, for up to two minutes. They are not all alike, so that two who
// claim the same invoice do not get into each other's way for ever.
var rounds = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 5, Cap: 4 * time.Second}

// patience bounds the rounds.
const patience = 2 * time.Minute

// lingering is how long a payment that has begun is seen to its end after the work was told to stop. It has to fit
// into the Pod's grace period.
const lingering = 15 * time.Second

// Key is what the payment of an invoice by a task is called at the ERP.
func Key(task, invoice string) string { return task + "/" + invoice }

// pay pays exactly once. Each round first makes a claim, which ends those of all earlier rounds, of this attempt and of
// others: a payment of theirs that is still under way will be refused. Only then does a look at the payments tell for good
// whether one was made, and only when there is none is one asked for, under the new claim.
func (w *Work) pay(ctx context.Context, request Request, amount money.Amount) (*Result, error) {
	if err := w.enter(ctx, StatePaying); err != nil {
		return nil, err
	}
	longer, stop := Linger(ctx)
	defer stop()
	bounded, stop := context.WithTimeout(longer, patience)
	defer stop()
	var result *Result
	var uncertain error
	err := rounds.DelayFunc().Until(bounded, true, true, func(bounded context.Context) (done bool, err error) {
		result, uncertain, err = w.round(ctx, bounded, request, amount)
		return result != nil, err
	})
	if wait.Interrupted(err) && uncertain != nil {
		err = uncertain
	}
	if err != nil {
		return nil, err
	}
	if result.Status == Paid {
		_ = w.hold(ctx) // a signal to stop comes too late: the payment is made
		return result, w.enter(longer, StatePaid)
	}
	return result, w.enter(longer, StateRejected)
}

// round makes one claim and at most one payment. It ends in a result; in a fault, after which the next round finds out
// what happened; or in an error. Once ctx has ended, no payment is begun.
func (w *Work) round(ctx, longer context.Context, request Request, amount money.Amount) (result *Result, fault, err error) {
	claim, err := w.ERP.Claim(longer, request.Invoice, w.By)
	if err != nil {
		return nil, nil, err
	}
	payments, err := w.ERP.Payments(longer, request.Invoice)
	if err != nil {
		return nil, nil, err
	}
	key := Key(w.TaskID, request.Invoice)
	for _, made := range payments {
		if made.Key == key {
			return paid(request, made), nil, nil
		}
	}
	if len(payments) > 0 {
		reason := fmt.Sprintf("%s was paid before, under the key %s", request.Invoice, payments[0].Key)
		return &Result{Invoice: request.Invoice, Status: Rejected, Reason: reason}, nil, nil
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	payment := erp.Payment{Key: key, Invoice: request.Invoice, Amount: amount, Claim: claim.Claim, By: w.By}
	err = w.ERP.Pay(longer, payment)
	var refusal *erpclient.Refusal
	switch {
	case err == nil:
		return paid(request, payment), nil, nil
	case errors.Is(err, erpclient.ErrUncertain), errors.As(err, &refusal) && refusal.Status == http.StatusConflict:
		return nil, err, nil
	}
	return nil, nil, err
}

func paid(request Request, payment erp.Payment) *Result {
	return &Result{Invoice: request.Invoice, Status: Paid, PaidAmount: &payment.Amount, Currency: request.Currency, PaymentKey: payment.Key}
}

// Linger gives a context that ends some seconds after ctx does: time to see a payment through and to report it.
func Linger(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(lingering):
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}
