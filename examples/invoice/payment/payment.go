// Package payment is the work of the tool pay_invoice: it checks an invoice, has a person approve it, reconciles it with the
// ERP and pays it, exactly once, however often the work is begun anew.
package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcptask/mcptask/examples/invoice/erp"
	"github.com/mcptask/mcptask/examples/invoice/erpclient"
	"github.com/mcptask/mcptask/examples/invoice/money"
	"github.com/mcptask/mcptask/examples/invoice/taskcli"
)

// The states of the work, as the task shows them.
const (
	StateValidating         = "validating"
	StateAwaitingApproval   = "awaiting_approval"
	StateReconciling        = "reconciling"
	StateAwaitingCorrection = "awaiting_correction"
	StatePaying             = "paying"
	StatePaid               = "paid"
	StateDeclined           = "declined"
	StateRejected           = "rejected"
)

// Request is an invoice as the caller presents it.
type Request struct {
	Invoice, Vendor, Currency string
	Amount                    money.Amount
}

// Task is what the work tells its task, and asks through it.
type Task interface {
	State(ctx context.Context, name string) error
	Ask(ctx context.Context, message string, schema, content any) (taskcli.Action, error)
}

// ERP is what the work does at the ERP.
type ERP interface {
	Invoice(ctx context.Context, number string) (erp.Invoice, error)
	Claim(ctx context.Context, number, by string) (erp.Claim, error)
	Payments(ctx context.Context, number string) ([]erp.Payment, error)
	Pay(ctx context.Context, payment erp.Payment) error
}

// ErrCancelled means that a person closed a question without a choice: nothing was decided and nothing was paid.
var ErrCancelled = errors.New("the question was closed without a choice")

// Work pays one invoice.
type Work struct {
	Task Task
	ERP  ERP
	// TaskID is the id of the task. All attempts at a task have the same one, and so the same payment key.
	TaskID string
	// By names this attempt, in words for people.
	By string
	// Tolerance is by how much the ERP's amount may differ from the invoice's without anybody being asked.
	Tolerance money.Amount
	// Pace is the least time that each step takes. It stands in for the work of a real one.
	Pace time.Duration
	// Warn is told of what went wrong and does not matter to the payment.
	Warn func(error)
}

// Do does the work. A result is a decision, be it for or against the payment. Any other end is an error, after which the
// work may be begun anew: ErrCancelled, the context's, or what went wrong.
func (w *Work) Do(ctx context.Context, request Request) (*Result, error) {
	if result, err := w.validate(ctx, request); result != nil || err != nil {
		return result, err
	}
	if result, err := w.approve(ctx, request); result != nil || err != nil {
		return result, err
	}
	amount, result, err := w.reconcile(ctx, request)
	if result != nil || err != nil {
		return result, err
	}
	return w.pay(ctx, request, amount)
}

// validate holds the invoice against what the ERP knows.
func (w *Work) validate(ctx context.Context, request Request) (*Result, error) {
	if err := w.enter(ctx, StateValidating); err != nil {
		return nil, err
	}
	known, err := w.ERP.Invoice(ctx, request.Invoice)
	var refusal *erpclient.Refusal
	var wrong string
	switch {
	case errors.As(err, &refusal) && refusal.Status == http.StatusNotFound:
		wrong = "the ERP knows no invoice " + request.Invoice
	case err != nil:
		return nil, err
	case known.Vendor != request.Vendor:
		wrong = fmt.Sprintf("the ERP has %s from another vendor", request.Invoice)
	case known.Currency != request.Currency:
		wrong = fmt.Sprintf("the ERP has %s in %s, not in %s", request.Invoice, known.Currency, request.Currency)
	default:
		return nil, w.hold(ctx)
	}
	if err := w.enter(ctx, StateRejected); err != nil {
		return nil, err
	}
	return &Result{Invoice: request.Invoice, Status: Rejected, Reason: wrong}, w.hold(ctx)
}

// approve asks a person. The question is made of the request alone, so that each attempt asks the same one.
func (w *Work) approve(ctx context.Context, request Request) (*Result, error) {
	if err := w.enter(ctx, StateAwaitingApproval); err != nil {
		return nil, err
	}
	var decision struct {
		Approve bool   `json:"approve"`
		Comment string `json:"comment"`
	}
	action, err := w.Task.Ask(ctx, fmt.Sprintf("Pay %s %s to %s for invoice %s?", request.Amount, request.Currency, request.Vendor, request.Invoice),
		approval, &decision)
	switch {
	case err != nil:
		return nil, err
	case action == taskcli.Cancel:
		return nil, ErrCancelled
	case action == taskcli.Decline || !decision.Approve:
		return w.decline(ctx, request, decision.Comment)
	}
	return nil, nil
}

// decline ends the work without a payment.
func (w *Work) decline(ctx context.Context, request Request, comment string) (*Result, error) {
	if err := w.enter(ctx, StateDeclined); err != nil {
		return nil, err
	}
	return &Result{Invoice: request.Invoice, Status: Declined, Reason: comment}, w.hold(ctx)
}

// reconcile finds the amount to pay. Where the ERP expects another one than the invoice says, a person chooses.
func (w *Work) reconcile(ctx context.Context, request Request) (money.Amount, *Result, error) {
	if err := w.enter(ctx, StateReconciling); err != nil {
		return 0, nil, err
	}
	known, err := w.ERP.Invoice(ctx, request.Invoice)
	if err != nil {
		return 0, nil, err
	}
	if err := w.hold(ctx); err != nil {
		return 0, nil, err
	}
	if money.Apart(known.Amount, request.Amount) <= w.Tolerance {
		return request.Amount, nil, nil
	}
	if err := w.enter(ctx, StateAwaitingCorrection); err != nil {
		return 0, nil, err
	}
	var choice struct {
		Amount money.Amount `json:"amount"`
	}
	action, err := w.Task.Ask(ctx, fmt.Sprintf("Invoice %s says %s %s, the ERP expects %s %s. Which amount is to be paid?",
		request.Invoice, request.Amount, request.Currency, known.Amount, known.Currency), correction(request.Amount, known.Amount), &choice)
	switch {
	case err != nil:
		return 0, nil, err
	case action == taskcli.Cancel:
		return 0, nil, ErrCancelled
	case action == taskcli.Decline:
		result, err := w.decline(ctx, request, "neither amount is right")
		return 0, result, err
	case choice.Amount != request.Amount && choice.Amount != known.Amount:
		return 0, nil, fmt.Errorf("the answer %s is neither of the amounts that were to be chosen from", choice.Amount)
	}
	return choice.Amount, nil, nil
}

// enter shows where the work is. That it cannot be shown is no reason to stop.
func (w *Work) enter(ctx context.Context, state string) error {
	err := w.Task.State(ctx, state)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		w.Warn(err)
	}
	return nil
}

// hold lets the step take its time.
func (w *Work) hold(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(w.Pace):
		return nil
	}
}
