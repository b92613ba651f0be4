package erp

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var books = Books{
	"INV-1": {Invoice: "INV-1", Vendor: "Acme", Amount: 125000, Currency: "EUR"},
	"INV-2": {Invoice: "INV-2", Vendor: "Acme", Amount: 700, Currency: "EUR"},
}

func open(t *testing.T, path string) *Ledger {
	t.Helper()
	ledger, err := OpenLedger(path, books)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	return ledger
}

func TestNothingIsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	before := open(t, path)
	claim, err := before.Claim("INV-1", "one")
	if err != nil || claim.Claim != 1 {
		t.Fatalf("%+v, %v", claim, err)
	}
	if err := before.Pay(Payment{Key: "k", Invoice: "INV-1", Amount: 5, Claim: 1}); err != nil {
		t.Fatal(err)
	}
	if err := before.Reserve(Reservation{Order: "PO-1", Items: 3}); err != nil {
		t.Fatal(err)
	}
	after := open(t, path)
	if !reflect.DeepEqual(after.Record(), before.Record()) || len(after.Record()) != 3 {
		t.Errorf("it was %+v, it is %+v", before.Record(), after.Record())
	}
	if claim, err := after.Claim("INV-1", "two"); err != nil || claim.Claim != 2 {
		t.Errorf("%+v, %v", claim, err)
	}
}

// A line that was being written when the program was killed was never promised to anybody.
func TestHalfALineIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if _, err := open(t, path).Claim("INV-1", "one"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, `{"time":"20`...), 0o600); err != nil {
		t.Fatal(err)
	}
	ledger := open(t, path)
	if _, err := ledger.Claim("INV-1", "two"); err != nil {
		t.Fatal(err)
	}
	if record := open(t, path).Record(); len(record) != 2 || record[1].Claim.Claim != 2 {
		t.Errorf("the record is %+v", record)
	}
}

func TestRecordThatIsNoneIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ledger, err := OpenLedger(path, books); err == nil {
		_ = ledger.Close()
		t.Error("it is taken")
	}
}

func TestClaimEndsThoseBeforeIt(t *testing.T) {
	ledger := open(t, filepath.Join(t.TempDir(), "record"))
	for range 2 {
		if _, err := ledger.Claim("INV-1", "somebody"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledger.Pay(Payment{Key: "k", Invoice: "INV-1", Amount: 1, Claim: 1}); !errors.Is(err, ErrOldClaim) {
		t.Errorf("a payment under an old claim: %v", err)
	}
	if err := ledger.Pay(Payment{Key: "k", Invoice: "INV-2", Amount: 1, Claim: 2}); !errors.Is(err, ErrOldClaim) {
		t.Errorf("a payment under the claim on another invoice: %v", err)
	}
	if made := ledger.Payments("INV-1"); len(made) != 0 {
		t.Errorf("payments %+v", made)
	}
	// The ERP helps nobody who pays twice under one claim.
	for range 2 {
		if err := ledger.Pay(Payment{Key: "k", Invoice: "INV-1", Amount: 1, Claim: 2}); err != nil {
			t.Error(err)
		}
	}
	if made := ledger.Payments("INV-1"); len(made) != 2 {
		t.Errorf("payments %+v", made)
	}
	if record := ledger.Record(); len(record) != 6 || record[2].Refused == "" || record[2].Paid() {
		t.Errorf("the refused payment is not in the record %+v", record)
	}
}

func TestPaymentsThatAreNone(t *testing.T) {
	ledger := open(t, filepath.Join(t.TempDir(), "record"))
	for want, payment := range map[error]Payment{
		ErrUnknownInvoice: {Key: "k", Invoice: "INV-9", Amount: 1},
		ErrWrongPayment:   {Invoice: "INV-1", Amount: 1},
	} {
		if err := ledger.Pay(payment); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if len(ledger.Record()) != 0 {
		t.Errorf("recorded %+v", ledger.Record())
	}
}

func TestReadBooks(t *testing.T) {
	for text, ok := range map[string]bool{
		`[{"invoice":"I","vendor":"V","amount":"1.00","currency":"EUR"}]`:                                                               true,
		`[{"invoice":"I","vendor":"V","amount":"1","currency":"EUR"}]`:                                                                  false,
		`[{"invoice":"I","amount":"1.00","currency":"EUR"}]`:                                                                            false,
		`[{"invoice":"I","vendor":"V","amount":"1.00","currency":"EUR"},{"invoice":"I","vendor":"V","amount":"1.00","currency":"EUR"}]`: false,
		`{}`: false,
	} {
		path := filepath.Join(t.TempDir(), "books.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if read, err := ReadBooks(path); (err == nil) != ok || ok && read["I"].Amount != 100 {
			t.Errorf("%s: %v, %v", text, read, err)
		}
	}
}
