package erp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Ledger is the record: all that was asked for, in order. It lives in a file that is only ever appended to, a JSON object a
// line; an entry counts once it is on the disk.
type Ledger struct {
	books Books

	mu           sync.Mutex
	file         *os.File
	entries      []Entry
	claims       map[string]int // the last claim by invoice
	reservations map[string]Reservation
	broken       error // a write failed: what the file holds is not known any more
}

// OpenLedger reads the file, or makes it, and continues it.
func OpenLedger(path string, books Books) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Ledger{books: books, file: file, claims: map[string]int{}, reservations: map[string]Reservation{}}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return l, nil
}

// load reads the entries. A last line without an end was being written when the program was killed: nobody was told that
// it counts, and it is cut off.
func (l *Ledger) load() error {
	text, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for i, line := range bytes.SplitAfter(whole, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var entry Entry
		if err := json.Unmarshal(line, &entry); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		l.remember(entry)
	}
	return l.file.Truncate(int64(len(whole)))
}

// Close closes the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

func (l *Ledger) remember(entry Entry) {
	l.entries = append(l.entries, entry)
	if entry.Claim != nil {
		l.claims[entry.Claim.Invoice] = entry.Claim.Claim
	}
	if entry.Reservation != nil {
		l.reservations[entry.Reservation.Order] = *entry.Reservation
	}
}

// append puts an entry on the disk. The lock is held.
func (l *Ledger) append(entry Entry) error {
	if l.broken != nil {
		return l.broken
	}
	entry.Time = time.Now().UTC()
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.broken = fmt.Errorf("the record could not be written, and is not trusted until it is read again: %w", err)
		return l.broken
	}
	l.remember(entry)
	return nil
}

// Invoice looks an invoice up.
func (l *Ledger) Invoice(number string) (Invoice, error) {
	invoice, ok := l.books[number]
	if !ok {
		return Invoice{}, fmt.Errorf("%w: %q", ErrUnknownInvoice, number)
	}
	return invoice, nil
}

// Claim makes a claim on an invoice, which ends all earlier ones.
func (l *Ledger) Claim(number, by string) (Claim, error) {
	if _, err := l.Invoice(number); err != nil {
		return Claim{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := Claim{Invoice: number, Claim: l.claims[number] + 1, By: by}
	return claim, l.append(Entry{Claim: &claim})
}

// Pay makes a payment if its claim is the last one on the invoice. A payment that is refused is recorded too.
func (l *Ledger) Pay(payment Payment) error {
	if _, err := l.Invoice(payment.Invoice); err != nil {
		return err
	}
	if payment.Key == "" || payment.Amount <= 0 {
		return fmt.Errorf("%w: key and an amount above 0.00 are needed", ErrWrongPayment)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := Entry{Payment: &payment}
	var refused error
	if last := l.claims[payment.Invoice]; payment.Claim != last {
		refused = fmt.Errorf("%w: it is %d, the last one is %d", ErrOldClaim, payment.Claim, last)
		entry.Refused = refused.Error()
	}
	if err := l.append(entry); err != nil {
		return err
	}
	return refused
}

// Payments are the payments that were made for an invoice.
func (l *Ledger) Payments(number string) []Payment {
	l.mu.Lock()
	defer l.mu.Unlock()
	payments := []Payment{}
	for _, entry := range l.entries {
		if entry.Paid() && entry.Payment.Invoice == number {
			payments = append(payments, *entry.Payment)
		}
	}
	return payments
}

// Reserve keeps stock for an order. Doing it again changes nothing.
func (l *Ledger) Reserve(reservation Reservation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reservations[reservation.Order] == reservation {
		return nil
	}
	return l.append(Entry{Reservation: &reservation})
}

// Err says why nothing can be recorded any more; nil while all is well. Reading the file again is the way out.
func (l *Ledger) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// Record is a copy of all entries.
func (l *Ledger) Record() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}
