// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/karve-dev/karve/provider"
)

// Prices exposes the state of a provider's price list, as karve_<cloud>_…. It panics when
// called twice for a registry, which is a programming error.
func Prices(registry prometheus.Registerer, cloud string, of provider.PriceReporter) {
	gauge := func(rest, help string, value func(provider.PriceStats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "karve_" + cloud + "_" + rest, Help: help}, func() float64 { return value(of.PriceStats()) })
	}
	registry.MustRegister(
		gauge("prices", "Instance types with an accepted price.", func(p provider.PriceStats) float64 { return float64(p.Accepted) }),
		gauge("prices_rejected", "Prices of the list that are rejected as implausible.", func(p provider.PriceStats) float64 { return float64(p.Rejected) }),
		gauge("prices_read_timestamp_seconds", "When a price list was accepted last; 0 when none ever was.", func(p provider.PriceStats) float64 {
			if p.Read.IsZero() {
				return 0
			}
			return float64(p.Read.Unix())
		}),
	)
}
