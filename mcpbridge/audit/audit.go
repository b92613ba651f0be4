// Package audit writes who did what to whose task: one line for each request that was refused for who its caller is, and for
// each task that was made, answered or cancelled. A line never holds credentials, arguments or answers.
package audit

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcptask/mcptask/mcpbridge/auth"
)

// Outcome is what became of what the caller wanted.
type Outcome string

// The outcomes.
const (
	Denied    Outcome = "denied"
	Created   Outcome = "created"
	Answered  Outcome = "answered"
	Cancelled Outcome = "cancelled"
)

// Event is one line. What does not apply is empty.
type Event struct {
	Outcome Outcome
	// Who wanted it; nobody where the caller was not identified.
	Who auth.Principal
	// Method that was called: a name of ours, not the caller's text.
	Method string
	// Namespace, Task and Tool are the object.
	Namespace, Task, Tool string
	// Question is the key of the question that was answered.
	Question string
	// Why, in fixed words.
	Why string
	// Remote is the address that the request came from.
	Remote string
}

// Log is the audit log.
type Log struct {
	log    *slog.Logger
	events *prometheus.CounterVec
}

// New makes an audit log that writes to log, whatever its level, and counts in the registry.
func New(log *slog.Logger, registry prometheus.Registerer) *Log {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "mcptask", Subsystem: "bridge",
		Name: "audit_events_total", Help: "Lines of the audit log, by method and outcome: denied, created, answered or cancelled."}, []string{"method", "outcome"})
	registry.MustRegister(events)
	return &Log{log: log, events: events}
}

// longest bounds a name in a line, in bytes: a caller's text may be longer.
const longest = auth.MaxSubject

// Write writes a line.
func (l *Log) Write(e Event) {
	l.events.WithLabelValues(e.Method, string(e.Outcome)).Inc()
	attributes := []slog.Attr{slog.Bool("audit", true), slog.String("outcome", string(e.Outcome))}
	for _, field := range []struct{ name, value string }{
		{"why", e.Why}, {"issuer", e.Who.Issuer}, {"subject", e.Who.Subject}, {"pod", string(e.Who.PodUID)}, {"method", e.Method},
		{"namespace", e.Namespace}, {"task", e.Task}, {"tool", e.Tool}, {"question", e.Question}, {"remote", e.Remote},
	} {
		if field.value != "" {
			attributes = append(attributes, slog.String(field.name, clip(field.value)))
		}
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "audit", attributes...)
}

func clip(text string) string {
	if len(text) <= longest {
		return text
	}
	return text[:longest] + "…"
}
