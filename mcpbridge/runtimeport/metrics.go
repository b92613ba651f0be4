package runtimeport

import "github.com/prometheus/client_golang/prometheus"

// metrics are what the port counts.
type metrics struct {
	reports   *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	writes    prometheus.Counter
	results   prometheus.Counter
	liveReads prometheus.Counter
	waiting   prometheus.Gauge
	held      prometheus.Gauge
}

// Outcomes of a report that was accepted.
const (
	written   = "written"
	unchanged = "unchanged"
	stale     = "stale"
)

func newMetrics(registry prometheus.Registerer) *metrics {
	const namespace, runtime = "mcptask", "bridge_runtime"
	m := &metrics{
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: runtime,
			Name: "reports_total", Help: "Reports of Pods that were accepted: written, unchanged, or stale because a newer one is stored."}, []string{"outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: runtime,
			Name: "refusals_total", Help: "Requests of Pods that were refused, by method and reason."}, []string{"method", "reason"}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: runtime,
			Name: "writes_total", Help: "Writes of reports into tasks; one may have the reports of several Pods."}),
		results: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: runtime,
			Name: "results_total", Help: "Results that are too large for a report and were stored in Secrets."}),
		liveReads: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: runtime,
			Name: "live_reads_total", Help: "Tasks read from the API server for a Pod because the cache did not have them."}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: runtime,
			Name: "waiting_polls", Help: "Requests of Pods that wait for answers."}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: runtime,
			Name: "held_reports", Help: "Reports of Pods that wait to be written."}),
	}
	registry.MustRegister(m.reports, m.refusals, m.writes, m.results, m.liveReads, m.waiting, m.held)
	return m
}
