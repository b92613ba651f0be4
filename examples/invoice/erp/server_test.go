package erp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, faults Faults) (*Ledger, string) {
	t.Helper()
	ledger := open(t, filepath.Join(t.TempDir(), "record"))
	server := httptest.NewServer(NewServer(ledger, faults).Handler())
	t.Cleanup(server.Close)
	return ledger, server.URL
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

func TestAnswers(t *testing.T) {
	_, url := serve(t, Faults{})
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/invoices/INV-1", "", 200, `{"invoice":"INV-1","vendor":"Acme","amount":"1250.00","currency":"EUR"}`},
		{"GET", "/invoices/INV-9", "", 404, "no such invoice"},
		{"POST", "/invoices/INV-1/claims", `{"by":"me"}`, 201, `{"invoice":"INV-1","claim":1,"by":"me"}`},
		{"POST", "/invoices/INV-9/claims", `{"by":"me"}`, 404, "no such invoice"},
		{"GET", "/invoices/INV-1/payments", "", 200, "[]"},
		{"POST", "/payments", `{"key":"k","invoice":"INV-1","amount":"7.00","claim":1,"by":"me"}`, 201, `"key":"k"`},
		{"POST", "/payments", `{"key":"k","invoice":"INV-1","amount":"7.00","claim":0,"by":"me"}`, 409, "the last one is 1"},
		{"POST", "/payments", `{"key":"k","invoice":"INV-1","amount":"0.00","claim":1,"by":"me"}`, 422, "amount above"},
		{"POST", "/payments", `{"key":"k","invoice":"INV-1","amount":7}`, 400, "body"},
		{"POST", "/payments", ``, 400, "body"},
		{"GET", "/invoices/INV-1/payments", "", 200, `"amount":"7.00"`},
		{"PUT", "/reservations/PO-1", `{"items":3}`, 200, `{"order":"PO-1","items":3}`},
		{"GET", "/record", "", 200, `"refused"`},
		{"GET", "/healthz", "", 200, "{}"},
	} {
		if status, text := ask(t, c.method, url+c.path, c.body); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, status, text, c.status, c.says)
		}
	}
}

func TestBusyIsBoundedAndAlwaysTheSame(t *testing.T) {
	pattern := func(seed uint64) (all string) {
		_, url := serve(t, Faults{Seed: seed, Busy: 0.6})
		row := 0
		for range 40 {
			status, _ := ask(t, "GET", url+"/invoices/INV-1", "")
			if status == 503 {
				row++
				all += "-"
			} else {
				row = 0
				all += "+"
			}
			if row > maxBusy {
				t.Fatalf("%d refusals in a row: %s", row, all)
			}
		}
		return all
	}
	first := pattern(7)
	if again := pattern(7); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if !strings.Contains(first, "-") || !strings.Contains(first, "+") || pattern(8) == first {
		t.Errorf("the pattern of seed 7 is %s", first)
	}
}

func TestAccidents(t *testing.T) {
	met := map[Accident]bool{}
	for seed := range uint64(40) {
		want := newPattern(Faults{Seed: seed, Accidents: true}).accident("INV-1")
		if met[want] {
			continue
		}
		met[want] = true
		ledger, url := serve(t, Faults{Seed: seed, Accidents: true, Hang: 50 * time.Millisecond})
		if _, err := ledger.Claim("INV-1", "me"); err != nil {
			t.Fatal(err)
		}
		body := `{"key":"k","invoice":"INV-1","amount":"7.00","claim":1,"by":"me"}`
		began := time.Now()
		status, _ := ask(t, "POST", url+"/payments", body)
		if answered := map[Accident]int{AnsweredBusy: 503, CutOff: 0, AnsweredLate: 201, RecordedLate: 201}[want]; status != answered {
			t.Errorf("%s: answered %d, want %d", want, status, answered)
		}
		if late := want == AnsweredLate || want == RecordedLate; late != (time.Since(began) >= 50*time.Millisecond) {
			t.Errorf("%s: answered after %s", want, time.Since(began))
		}
		if made := ledger.Payments("INV-1"); len(made) != 1 {
			t.Errorf("%s: payments %+v", want, made)
		}
		if status, _ := ask(t, "POST", url+"/payments", body); status != 201 {
			t.Errorf("%s: the second payment is answered %d", want, status)
		}
	}
	if len(met) != len(accidents) {
		t.Errorf("only %v happened", met)
	}
}
