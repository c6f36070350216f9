package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/karve-dev/karve/provider"
)

type priced provider.PriceStats

func (p priced) PriceStats() provider.PriceStats { return provider.PriceStats(p) }

// Rule PRICE-2: prices that are not believed are a metric.
func TestPrices(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	Prices(registry, "azure", priced{Accepted: 900, Rejected: 2, Read: time.Unix(1000, 0)})
	Prices(registry, "other", priced{})
	const want = `
# HELP karve_azure_prices_doubted Prices of the list that are not believed.
# TYPE karve_azure_prices_doubted gauge
karve_azure_prices_doubted 2
# HELP karve_azure_prices_read_timestamp_seconds When the price list was read and believed last; 0 when it never was.
# TYPE karve_azure_prices_read_timestamp_seconds gauge
karve_azure_prices_read_timestamp_seconds 1000
# HELP karve_other_prices_read_timestamp_seconds When the price list was read and believed last; 0 when it never was.
# TYPE karve_other_prices_read_timestamp_seconds gauge
karve_other_prices_read_timestamp_seconds 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"karve_azure_prices_doubted", "karve_azure_prices_read_timestamp_seconds", "karve_other_prices_read_timestamp_seconds")
	if err != nil {
		t.Error(err)
	}
}
