// Package erpclient calls the ERP. Whatever may be repeated without harm is repeated, with growing pauses, for up to two
// minutes. A payment is not: see Pay.
package erpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcptask/mcptask/examples/invoice/erp"
)

// DefaultTimeout is how long one request may take.
const DefaultTimeout = 5 * time.Second

// pauses are those between tries: from 200 ms they double up to about 5 s.
var pauses = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 5 * time.Second}

// patience is how long a request is repeated.
const patience = 2 * time.Minute

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

// ErrUncertain means that it is not known whether a payment was made.
var ErrUncertain = errors.New("it is not known whether the payment was made")

// Refusal is an answer of the ERP that repeating the request does not change.
type Refusal struct {
	Status int
	Words  string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the ERP refuses (HTTP %d): %s", r.Status, r.Words)
}

// Client calls one ERP.
type Client struct {
	url     string
	timeout time.Duration
	http    http.Client
}

// New makes a client of the ERP at a URL. A timeout of 0 is DefaultTimeout.
func New(url string, timeout time.Duration) *Client {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	return &Client{url: strings.TrimRight(url, "/"), timeout: timeout}
}

// Invoice looks an invoice up. For one that the ERP does not know the error is a Refusal with the status 404.
func (c *Client) Invoice(ctx context.Context, number string) (invoice erp.Invoice, err error) {
	err = c.insist(ctx, http.MethodGet, "/invoices/"+url.PathEscape(number), nil, &invoice)
	return invoice, err
}

// Claim makes a new claim on an invoice. From then on no payment under an earlier claim is made: what Payments shows
// after it is all there is and will be, but for payments under the new claim.
func (c *Client) Claim(ctx context.Context, number, by string) (claim erp.Claim, err error) {
	err = c.insist(ctx, http.MethodPost, "/invoices/"+url.PathEscape(number)+"/claims", map[string]string{"by": by}, &claim)
	return claim, err
}

// Payments are the payments that were made for an invoice, under whatever key.
func (c *Client) Payments(ctx context.Context, number string) (payments []erp.Payment, err error) {
	err = c.insist(ctx, http.MethodGet, "/invoices/"+url.PathEscape(number)+"/payments", nil, &payments)
	return payments, err
}

// Reserve keeps stock for an order.
func (c *Client) Reserve(ctx context.Context, reservation erp.Reservation) error {
	return c.insist(ctx, http.MethodPut, "/reservations/"+url.PathEscape(reservation.Order), reservation, &reservation)
}

// Record is all that the ERP recorded.
func (c *Client) Record(ctx context.Context) (entries []erp.Entry, err error) {
	err = c.insist(ctx, http.MethodGet, "/record", nil, &entries)
	return entries, err
}

// Pay asks for a payment, once. The error is a Refusal when it was not made, and ErrUncertain when it may have been: then
// a new Claim, and a look at the Payments after it, tell.
func (c *Client) Pay(ctx context.Context, payment erp.Payment) error {
	err := c.once(ctx, http.MethodPost, "/payments", payment, &payment)
	var refusal *Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

// insist repeats a request until it is answered.
func (c *Client) insist(ctx context.Context, method, path string, body, into any) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var last error
	err := pauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		last = c.once(ctx, method, path, body, into)
		var refusal *Refusal
		if errors.As(last, &refusal) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last // more telling than that the context has ended
	}
	return err
}

// once sends a request. The error is a Refusal when the ERP has decided; after any other error it may have done it or not.
func (c *Client) once(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking the ERP: %w", err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("asking the ERP: %s %s: reading the answer: %w", method, path, err)
	case answer.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("asking the ERP: %s %s: HTTP %d: %s", method, path, answer.StatusCode, words(raw))
	case answer.StatusCode >= http.StatusBadRequest:
		return &Refusal{Status: answer.StatusCode, Words: words(raw)}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("asking the ERP: %s %s: the answer: %w", method, path, err)
	}
	return nil
}

// words are those of an error's body; its beginning when it is not the ERP's own.
func words(raw []byte) string {
	var body struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(raw, &body); err == nil && body.Error != "" {
		return body.Error
	}
	return fmt.Sprintf("%.200s", raw)
}
