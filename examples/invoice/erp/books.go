// Package erp is a small stand-in for a company's ERP system: it knows invoices, reserves stock and records payments.
//
// It is as unhelpful as real ones are. It may answer 503, it may answer nothing after it has recorded a payment, and it
// never drops a payment for being the second of its kind: each one that it accepts is money that has left the house. What it
// does offer is a claim on an invoice, a number that grows. Payments under an older claim than the last are refused.
package erp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mcptask/mcptask/examples/invoice/money"
)

// Invoice is what the ERP knows of an invoice.
type Invoice struct {
	Invoice string `json:"invoice"`
	Vendor  string `json:"vendor"`
	// Amount is what the ERP expects to pay, in Currency.
	Amount   money.Amount `json:"amount"`
	Currency string       `json:"currency"`
}

// Books are the invoices by their numbers.
type Books map[string]Invoice

// ReadBooks reads a JSON array of invoices.
func ReadBooks(file string) (Books, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var invoices []Invoice
	if err := json.Unmarshal(text, &invoices); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	books := Books{}
	for i, invoice := range invoices {
		if invoice.Invoice == "" || invoice.Vendor == "" || invoice.Currency == "" {
			return nil, fmt.Errorf("%s: entry %d lacks invoice, vendor or currency", file, i)
		}
		if _, twice := books[invoice.Invoice]; twice {
			return nil, fmt.Errorf("%s: %s is there twice", file, invoice.Invoice)
		}
		books[invoice.Invoice] = invoice
	}
	return books, nil
}

// Claim is the right to pay an invoice, until the next claim on it is made.
type Claim struct {
	Invoice string `json:"invoice"`
	// Claim is the number: 1 for the first claim on an invoice, and one more for each further one.
	Claim int `json:"claim"`
	// By says who made it, in words for people.
	By string `json:"by"`
}

// Payment is a payment, or the wish for one.
type Payment struct {
	// Key is the payer's own name for the payment. The ERP keeps it and makes nothing of it.
	Key     string       `json:"key"`
	Invoice string       `json:"invoice"`
	Amount  money.Amount `json:"amount"`
	// Claim is the payer's claim on the invoice.
	Claim int `json:"claim"`
	// By says who paid, in words for people.
	By string `json:"by"`
}

// Reservation is stock that is kept for an order.
type Reservation struct {
	Order string `json:"order"`
	Items int    `json:"items"`
}

// Entry is a line of the record. One of Claim, Payment and Reservation is there.
type Entry struct {
	Time        time.Time    `json:"time"`
	Claim       *Claim       `json:"claim,omitempty"`
	Payment     *Payment     `json:"payment,omitempty"`
	Reservation *Reservation `json:"reservation,omitempty"`
	// Refused says why a payment was not made; it was made when this is empty.
	Refused string `json:"refused,omitempty"`
}

// Paid says whether the entry is a payment that was made.
func (e Entry) Paid() bool { return e.Payment != nil && e.Refused == "" }

// What a request can be refused for.
var (
	ErrUnknownInvoice = errors.New("no such invoice")
	ErrOldClaim       = errors.New("the claim is not the last one on this invoice")
	ErrWrongPayment   = errors.New("the payment is incomplete")
)
