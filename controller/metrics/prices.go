package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/karve-dev/karve/provider"
)

// Prices exposes how a provider's price list stands, as karve_<cloud>_…. It panics when
// that is done twice, which is a bug of ours.
func Prices(registry prometheus.Registerer, cloud string, of provider.PriceReporter) {
	gauge := func(rest, help string, value func(provider.PriceStats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "karve_" + cloud + "_" + rest, Help: help}, func() float64 { return value(of.PriceStats()) })
	}
	registry.MustRegister(
		gauge("prices", "Machine types with a price that is believed.", func(p provider.PriceStats) float64 { return float64(p.Accepted) }),
		gauge("prices_doubted", "Prices of the list that are not believed.", func(p provider.PriceStats) float64 { return float64(p.Rejected) }),
		gauge("prices_read_timestamp_seconds", "When the price list was read and believed last; 0 when it never was.", func(p provider.PriceStats) float64 {
			if p.Read.IsZero() {
				return 0
			}
			return float64(p.Read.Unix())
		}),
	)
}
