package endpoint

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// Metrics are what the bridge counts.
type Metrics struct {
	requests     *prometheus.CounterVec
	latency      *prometheus.HistogramVec
	liveReads    prometheus.Counter
	resultReads  prometheus.Counter
	waiting      prometheus.Gauge
	authFailures *prometheus.CounterVec
	toolsLeftOut prometheus.Gauge
	refusals     *prometheus.CounterVec
	earlyPolls   prometheus.Counter

	streams       prometheus.Gauge
	streamsCut    prometheus.Counter
	notifications *prometheus.CounterVec

	// CacheLag is how long the watch took to show what this replica knew already.
	CacheLag prometheus.Histogram
	// CacheEvent is when the watch last told of a change, in seconds since 1970.
	CacheEvent prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const namespace, bridge = "mcptask", "bridge"
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "requests_total", Help: "Requests by method and outcome: ok, or the JSON-RPC error code."}, []string{"method", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: bridge,
			Name: "request_duration_seconds", Help: "Time to the end of the answer, waiting calls included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10)}, []string{"method"}),
		liveReads: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "live_reads_total", Help: "Tasks read from the API server because the cache did not have them."}),
		resultReads: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "result_reads_total", Help: "Results read from the API server because they stand in Secrets, or were not asked for lately."}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: bridge,
			Name: "waiting_calls", Help: "Tool calls that wait for their result."}),
		authFailures: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "auth_failures_total", Help: "Requests whose caller could not be identified, by reason."}, []string{"reason"}),
		toolsLeftOut: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: bridge,
			Name: "tools_left_out", Help: "Ready tools that cannot be offered; the log says why."}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "refusals_total", Help: "Requests refused because a limit is reached, by limit."}, []string{"limit"}),
		earlyPolls: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "early_polls_total", Help: "Polls of tasks sooner after the last one than pollIntervalMs asks for."}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: bridge,
			Name: "streams", Help: "Open streams of notifications."}),
		streamsCut: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "streams_cut_total", Help: "Streams of notifications that ended because their client did not read."}),
		notifications: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: bridge,
			Name: "notifications_total", Help: "Notifications on streams, by what they are about: tasks or tools."}, []string{"about"}),
		CacheLag: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: bridge,
			Name: "cache_lag_seconds", Help: "Age of a known write or live read when the watch showed it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		CacheEvent: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: bridge,
			Name: "cache_last_event_timestamp_seconds", Help: "When the watch last told of a change."}),
	}
	registry.MustRegister(m.requests, m.latency, m.liveReads, m.resultReads, m.waiting, m.authFailures, m.toolsLeftOut, m.CacheLag, m.CacheEvent,
		m.refusals, m.earlyPolls, m.streams, m.streamsCut, m.notifications)
	return m
}

func (m *Metrics) observe(x *exchange, took time.Duration) {
	m.requests.WithLabelValues(x.label, x.outcome.Load().(string)).Inc()
	m.latency.WithLabelValues(x.label).Observe(took.Seconds())
}

// outcomeOf keeps tools from inventing label values: their own codes are all one.
func outcomeOf(failure *wire.Error) string {
	switch failure.Code {
	case wire.CodeParseError, wire.CodeInvalidRequest, wire.CodeMethodNotFound, wire.CodeInvalidParams, wire.CodeInternalError,
		wire.CodeHeaderMismatch, wire.CodeMissingCapability, wire.CodeUnsupportedVersion:
		return strconv.FormatInt(failure.Code, 10)
	case wire.CodeLimitReached:
		return "limit"
	}
	return "tool"
}
