package payment

import (
	"fmt"

	"github.com/mcptask/mcptask/examples/invoice/money"
)

// Status is what was decided about an invoice.
type Status string

const (
	// Paid: it was paid by this task.
	Paid Status = "paid"
	// Declined: a person said no.
	Declined Status = "declined"
	// Rejected: it cannot be paid as it was presented, or has been paid by somebody else.
	Rejected Status = "rejected"
)

// Result is what the caller gets, by the tool's outputSchema.
type Result struct {
	Invoice string `json:"invoice"`
	Status  Status `json:"status"`
	// PaidAmount, Currency and PaymentKey are there when it was paid.
	PaidAmount *money.Amount `json:"paidAmount,omitempty"`
	Currency   string        `json:"currency,omitempty"`
	PaymentKey string        `json:"paymentKey,omitempty"`
	// Reason says why it was not paid: what the person commented, or what is wrong.
	Reason string `json:"reason,omitempty"`
}

// String says the same in words.
func (r *Result) String() string {
	switch {
	case r.Status == Paid:
		return fmt.Sprintf("%s is paid: %s %s, under the payment key %s.", r.Invoice, r.PaidAmount, r.Currency, r.PaymentKey)
	case r.Reason == "":
		return fmt.Sprintf("%s is not paid: %s.", r.Invoice, r.Status)
	}
	return fmt.Sprintf("%s is not paid: %s (%s).", r.Invoice, r.Status, r.Reason)
}

// ToolResult is the result as MCP has it (CallToolResult). That a person declines is an answer; that an invoice cannot be
// paid is an error, which the caller has to mend.
func (r *Result) ToolResult() map[string]any {
	return map[string]any{
		"content":           []map[string]string{{"type": "text", "text": r.String()}},
		"structuredContent": r,
		"isError":           r.Status == Rejected,
	}
}
