package runtimeport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mcptask/mcptask/api/report"
)

const (
	// smallReport is what every Pod may send at once.
	smallReport = 16 << 10
	// maxReports bounds what larger reports take of the memory until they are stored, and maxReportsOfPod those of one Pod,
	// which sends one after the other.
	maxReports, maxReportsOfPod = 64 << 20, 1 << 20
	// roomPatience is how long a report waits for others.
	roomPatience = 5 * time.Second
)

// stored is the answer to a report: the sequence of the Pod's report that counts.
type stored struct {
	Sequence int64 `json:"sequence"`
}

// takeReport answers once the API server has the report, or a newer one of the same Pod.
func (p *Port) takeReport(x *exchange) (any, error) {
	leave, err := p.makeRoom(x)
	if err != nil {
		return nil, err
	}
	defer leave()
	text, err := read(x)
	if err != nil {
		return nil, err
	}
	told, err := report.Read(text, int(p.resultLimit(x.task)))
	if err != nil {
		return nil, asRefusal(err)
	}
	told.PodUID = x.pod.PodUID
	if err := p.place(x, told.Result); err != nil {
		return nil, err
	}
	v := p.writer.submit(x.http.Context(), x.task, told)
	if v.err != nil {
		return nil, asRefusal(v.err)
	}
	p.metrics.reports.WithLabelValues(v.outcome).Inc()
	return stored{v.sequence}, nil
}

// makeRoom waits until there is room for a report that is large, or may be.
func (p *Port) makeRoom(x *exchange) (leave func(), err error) {
	size := x.http.ContentLength
	switch {
	case size < 0 || size > report.MaxBytes:
		size = report.MaxBytes
	case size <= smallReport:
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(x.http.Context(), roomPatience)
	defer cancel()
	if leave, err = p.rooms.Take(ctx, x.pod.PodUID, size); err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "bodies", "many large reports are arriving; try again in a second", ""}
	}
	return leave, nil
}

func read(x *exchange) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(x.w, x.http.Body, report.MaxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &refusal{http.StatusRequestEntityTooLarge, "too_large", "the report is larger than 512 KiB", ""}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{http.StatusRequestTimeout, "body", "the report did not arrive in time", ""}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "body", "the report could not be read", ""}
	}
	// From here on the connection is only watched for the caller's leaving.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	return text, nil
}

// asRefusal tells a caller what is wrong with its report.
func asRefusal(err error) error {
	var fault *report.Fault
	if errors.As(err, &fault) {
		return &refusal{http.StatusUnprocessableEntity, "invalid", fault.Error(), ""}
	}
	return err
}
