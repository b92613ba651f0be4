// Package order is the caller of pay_invoice: for each purchase order it does back-office work of its own while the tool
// has the invoice paid. It may be killed at any moment and goes on from its journal.
package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/examples/invoice/money"
	"github.com/mcptask/mcptask/examples/invoice/payment"
)

// Order is a purchase order with its invoice.
type Order struct {
	Order string `json:"order"`
	// Items is how many pieces are to be kept in stock for it.
	Items    int          `json:"items"`
	Invoice  string       `json:"invoice"`
	Vendor   string       `json:"vendor"`
	Amount   money.Amount `json:"amount"`
	Currency string       `json:"currency"`
	// Decision is what the person says who is asked about the invoice.
	Decision Decision `json:"decision"`
}

// Decision stands in for a person.
type Decision struct {
	Approve bool   `json:"approve"`
	Comment string `json:"comment,omitempty"`
	// Amount is what is to be paid when the ERP expects another amount; nil: the person declines to choose.
	Amount *money.Amount `json:"amount,omitempty"`
}

// ReadOrders reads a JSON array of orders.
func ReadOrders(file string) ([]Order, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var orders []Order
	if err := json.Unmarshal(text, &orders); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	known := map[string]bool{}
	for i, order := range orders {
		if order.Order == "" || known[order.Order] {
			return nil, fmt.Errorf("%s: entry %d has no order number of its own", file, i)
		}
		known[order.Order] = true
	}
	return orders, nil
}

// arguments are those of pay_invoice.
func (o Order) arguments() (json.RawMessage, error) {
	return json.Marshal(map[string]any{"invoice": o.Invoice, "vendor": o.Vendor, "amount": o.Amount, "currency": o.Currency})
}

// Outcome is how the payment of an order ended, in the caller's words.
type Outcome string

const (
	// Paid: the invoice is paid.
	Paid Outcome = "paid"
	// Declined: a person said no.
	Declined Outcome = "declined"
	// ToClarify: the invoice cannot be paid as it is.
	ToClarify Outcome = "to clarify"
	// Withdrawn: nobody decided; the order may be placed anew.
	Withdrawn Outcome = "withdrawn"
	// Broken: the tool could not do its work.
	Broken Outcome = "broken"
)

// outcomeOf maps the end of a task to the caller's words. Five states of MCP and the tool's own status come together here.
func outcomeOf(task *mcpclient.Task) (Outcome, string, error) {
	switch task.Status {
	case mcpclient.Cancelled:
		return Withdrawn, task.StatusMessage, nil
	case mcpclient.Failed:
		return Broken, task.Error.Error(), nil
	case mcpclient.Completed:
	default:
		return "", "", fmt.Errorf("task %s has not ended: it is %s", task.ID, task.Status)
	}
	var text string
	for _, block := range task.Result.Content {
		if block.Type == "text" {
			text = block.Text
			break
		}
	}
	if len(task.Result.StructuredContent) == 0 { // the program ended without a result of its own
		return Broken, text, nil
	}
	var result payment.Result
	if err := json.Unmarshal(task.Result.StructuredContent, &result); err != nil {
		return "", "", fmt.Errorf("task %s: reading its result: %w", task.ID, err)
	}
	outcome, ok := map[payment.Status]Outcome{payment.Paid: Paid, payment.Declined: Declined, payment.Rejected: ToClarify}[result.Status]
	if !ok {
		return "", "", fmt.Errorf("task %s: its result has the unknown status %q", task.ID, result.Status)
	}
	return outcome, result.String(), nil
}

// response is the person's response to a question (MCP, ElicitResult).
func (d Decision) response(question mcpclient.InputRequest) (map[string]any, error) {
	var asked struct {
		Schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(question.Params, &asked); err != nil {
		return nil, fmt.Errorf("reading a question: %w", err)
	}
	switch properties := asked.Schema.Properties; {
	case properties["approve"] != nil:
		return map[string]any{"action": "accept", "content": map[string]any{"approve": d.Approve, "comment": d.Comment}}, nil
	case properties["amount"] != nil && d.Amount == nil:
		return map[string]any{"action": "decline"}, nil
	case properties["amount"] != nil:
		return map[string]any{"action": "accept", "content": map[string]any{"amount": d.Amount}}, nil
	}
	return nil, errors.New("a question asks for neither an approval nor an amount")
}
