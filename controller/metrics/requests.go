// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/karve-dev/karve/provider"
)

// Requests exposes a provider's statistics of its requests to a cloud, as
// karve_<cloud>_…. It panics when called twice for a registry, which is a programming error.
func Requests(registry prometheus.Registerer, cloud string, of provider.RequestReporter) {
	name := func(rest string) string { return "karve_" + cloud + "_" + rest }
	describe := func(rest, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name(rest), help, labels, nil)
	}
	registry.MustRegister(&requests{
		of:       of,
		requests: describe("requests_total", "Requests to the cloud: ok, refused (wrong), throttled (too many), failed (its fault), lost (no answer), or held (not sent, the limit was used up).", "class", "method", "outcome"),
		waits:    describe("request_waits_total", "Requests that waited for their turn under the cloud's limits.", "class"),
		waited:   describe("request_wait_seconds_total", "Time that requests waited for their turn.", "class"),
		left:     describe("requests_left", "Requests that the cloud's limits and our share of them allow right now.", "class"),
		launched: describe("instances_launched_total", "Creations of VMs that the cloud's own VM API accepted; VMs that AKS creates are not counted."),
		perNode:  describe("requests_per_instance", "Requests (reads, writes, deletes) since the start for each launched instance.", "kind"),
	})
}

// requests reads the provider's counts when it is scraped.
type requests struct {
	of                                               provider.RequestReporter
	requests, waits, waited, left, launched, perNode *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (r *requests) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.requests, r.waits, r.waited, r.left, r.launched, r.perNode} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (r *requests) Collect(out chan<- prometheus.Metric) {
	now := r.of.RequestStats()
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, c := range now.Counts {
		count(r.requests, float64(c.N), c.LimitClass, c.Method, c.Outcome)
	}
	for _, w := range now.Waits {
		count(r.waits, float64(w.N), w.LimitClass)
		count(r.waited, w.Total.Seconds(), w.LimitClass)
	}
	for class, n := range now.Left {
		gauge(r.left, n, class)
	}
	count(r.launched, float64(now.VMsCreated))
	if now.VMsCreated == 0 {
		return
	}
	for kind, n := range byKind(now.Counts) {
		gauge(r.perNode, n/float64(now.VMsCreated), kind)
	}
}

// byKind sums up the requests that were sent.
func byKind(counts []provider.RequestCount) map[string]float64 {
	sums := map[string]float64{"reads": 0, "writes": 0, "deletes": 0}
	for _, c := range counts {
		switch {
		case c.Outcome == "held":
		case c.Method == http.MethodGet || c.Method == http.MethodHead:
			sums["reads"] += float64(c.N)
		case c.Method == http.MethodDelete:
			sums["deletes"] += float64(c.N)
		default:
			sums["writes"] += float64(c.N)
		}
	}
	return sums
}
