// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// RequestRate registers the limit on requests to the Kubernetes API, which changes by itself.
func RequestRate(registry prometheus.Registerer, limit func() float64) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "karve_kubernetes_request_rate_limit", Help: "Requests a second to the Kubernetes API that are sent now at most.",
	}, limit))
}
