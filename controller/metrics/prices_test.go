// SPDX-License-Identifier: Apache-2.0

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

// Rule PRICE-2: implausible prices are a metric.
func TestPrices(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	Prices(registry, "azure", priced{Accepted: 900, Rejected: 2, Read: time.Unix(1000, 0)})
	Prices(registry, "other", priced{})
	const want = `
# HELP karve_azure_prices_rejected Prices of the list that are rejected as implausible.
# TYPE karve_azure_prices_rejected gauge
karve_azure_prices_rejected 2
# HELP karve_azure_prices_read_timestamp_seconds When a price list was accepted last; 0 when none ever was.
# TYPE karve_azure_prices_read_timestamp_seconds gauge
karve_azure_prices_read_timestamp_seconds 1000
# HELP karve_other_prices_read_timestamp_seconds When a price list was accepted last; 0 when none ever was.
# TYPE karve_other_prices_read_timestamp_seconds gauge
karve_other_prices_read_timestamp_seconds 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"karve_azure_prices_rejected", "karve_azure_prices_read_timestamp_seconds", "karve_other_prices_read_timestamp_seconds")
	if err != nil {
		t.Error(err)
	}
}
