package erp

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// maxBody bounds what is read of a request.
const maxBody = 64 << 10

// Server is the ERP's HTTP interface.
//
//	GET  /invoices/{invoice}            an Invoice; 404
//	POST /invoices/{invoice}/claims     {"by"} → 201 and a Claim
//	GET  /invoices/{invoice}/payments   the payments that were made, as an array
//	POST /payments                      a Payment → 201; 409 when its claim is not the last one
//	PUT  /reservations/{order}          {"items"} → 200
//	GET  /record                        all entries, as an array
//	GET  /healthz                       500 when nothing can be recorded any more
//
// Errors are JSON objects with "error".
type Server struct {
	ledger *Ledger
	faults *pattern
}

// NewServer serves a ledger with faults.
func NewServer(ledger *Ledger, faults Faults) *Server {
	return &Server{ledger: ledger, faults: newPattern(faults)}
}

// Handler answers the requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /invoices/{invoice}", s.unlessBusy(s.invoice))
	mux.HandleFunc("POST /invoices/{invoice}/claims", s.unlessBusy(s.claim))
	mux.HandleFunc("GET /invoices/{invoice}/payments", s.unlessBusy(s.payments))
	mux.HandleFunc("POST /payments", s.pay)
	mux.HandleFunc("PUT /reservations/{order}", s.unlessBusy(s.reserve))
	mux.HandleFunc("GET /record", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.ledger.Record()) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.ledger.Err(); err != nil {
			refuse(w, err)
			return
		}
		write(w, http.StatusOK, struct{}{})
	})
	return mux
}

// unlessBusy answers 503 now and then.
func (s *Server) unlessBusy(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.faults.busy(r.Method + " " + r.URL.Path) {
			busy(w)
			return
		}
		handle(w, r)
	}
}

func (s *Server) invoice(w http.ResponseWriter, r *http.Request) {
	invoice, err := s.ledger.Invoice(r.PathValue("invoice"))
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, invoice)
}

func (s *Server) claim(w http.ResponseWriter, r *http.Request) {
	var wish struct {
		By string `json:"by"`
	}
	if !read(w, r, &wish) {
		return
	}
	claim, err := s.ledger.Claim(r.PathValue("invoice"), wish.By)
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusCreated, claim)
}

func (s *Server) payments(w http.ResponseWriter, r *http.Request) {
	number := r.PathValue("invoice")
	if _, err := s.ledger.Invoice(number); err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, s.ledger.Payments(number))
}

func (s *Server) pay(w http.ResponseWriter, r *http.Request) {
	var payment Payment
	if !read(w, r, &payment) {
		return
	}
	if s.faults.busy("pay " + payment.Invoice) {
		busy(w)
		return
	}
	accident := s.faults.accident(payment.Invoice)
	if accident == RecordedLate {
		time.Sleep(s.faults.Hang)
	}
	err := s.ledger.Pay(payment)
	switch {
	case err != nil:
		refuse(w, err)
		return
	case accident == AnsweredBusy:
		busy(w)
		return
	case accident == CutOff:
		panic(http.ErrAbortHandler) // net/http's way to close the connection without an answer
	case accident == AnsweredLate:
		time.Sleep(s.faults.Hang)
	}
	write(w, http.StatusCreated, payment)
}

func (s *Server) reserve(w http.ResponseWriter, r *http.Request) {
	reservation := Reservation{}
	if !read(w, r, &reservation) {
		return
	}
	reservation.Order = r.PathValue("order")
	if err := s.ledger.Reserve(reservation); err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, reservation)
}

// failure is the body of an answer that refuses.
type failure struct {
	Error string `json:"error"`
}

func busy(w http.ResponseWriter) {
	write(w, http.StatusServiceUnavailable, failure{"the ERP is busy"})
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrUnknownInvoice):
		status = http.StatusNotFound
	case errors.Is(err, ErrOldClaim):
		status = http.StatusConflict
	case errors.Is(err, ErrWrongPayment):
		status = http.StatusUnprocessableEntity
	}
	write(w, status, failure{err.Error()})
}

// read reads a JSON body, or answers that there is none.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		write(w, http.StatusBadRequest, failure{"the body is not what is asked for here: " + err.Error()})
		return false
	}
	return true
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only when the caller is gone
}
