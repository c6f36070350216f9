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

type metered provider.RequestStats

func (m metered) RequestStats() provider.RequestStats { return provider.RequestStats(m) }

// Rule METRIC-4: requests by class, method and outcome, waits, remaining requests, and
// requests for each launched instance are metrics.
func TestRequests(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	Requests(registry, "azure", metered{
		Counts: []provider.RequestCount{
			{LimitClass: "vm-list", Method: "GET", Outcome: "ok", N: 10},
			{LimitClass: "vm-put", Method: "PUT", Outcome: "held", N: 3},
			{LimitClass: "vm-put", Method: "PUT", Outcome: "ok", N: 4},
			{LimitClass: "vm-put", Method: "PUT", Outcome: "refused", N: 1},
		},
		Waits:      []provider.RequestWait{{LimitClass: "vm-put", N: 2, Total: 1500 * time.Millisecond}},
		Left:       map[string]float64{"arm-writes": 95},
		VMsCreated: 4,
	})
	const want = `
# HELP karve_azure_request_wait_seconds_total Time that requests waited for their turn.
# TYPE karve_azure_request_wait_seconds_total counter
karve_azure_request_wait_seconds_total{class="vm-put"} 1.5
# HELP karve_azure_requests_left Requests that the cloud's limits and our share of them allow right now.
# TYPE karve_azure_requests_left gauge
karve_azure_requests_left{class="arm-writes"} 95
# HELP karve_azure_requests_per_instance Requests (reads, writes, deletes) since the start for each launched instance.
# TYPE karve_azure_requests_per_instance gauge
karve_azure_requests_per_instance{kind="deletes"} 0
karve_azure_requests_per_instance{kind="reads"} 2.5
karve_azure_requests_per_instance{kind="writes"} 1.25
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"karve_azure_request_wait_seconds_total", "karve_azure_requests_left", "karve_azure_requests_per_instance")
	if err != nil {
		t.Error(err)
	}
	n, err := testutil.GatherAndCount(registry, "karve_azure_requests_total", "karve_azure_instances_launched_total", "karve_azure_request_waits_total")
	if err != nil || n != 6 {
		t.Errorf("%d series, %v; want 6", n, err)
	}
}
