// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/provider"
)

// Rule QUOTA-4.
func TestQuotasAreGauges(t *testing.T) {
	registry := prometheus.NewRegistry()
	k := New(nil, nil, metrics.New(registry))
	k.setQuotaGauges(&provider.Catalog{
		QuotaLeft:     map[string]int64{"regional": 40, "lowPriority": 7},
		QuotaForecast: map[string]provider.Exhaustion{"regional": {Left: 40, In: time.Minute}, "lowPriority": {Left: 7, In: time.Hour}},
	})
	k.setQuotaGauges(&provider.Catalog{
		QuotaLeft:     map[string]int64{"regional": 30, "lowPriority": 7},
		QuotaForecast: map[string]provider.Exhaustion{"regional": {Left: 30, In: 2 * time.Minute}},
	})
	want := map[string]float64{
		"karve_quota_remaining regional": 30, "karve_quota_remaining lowPriority": 7,
		"karve_quota_exhausted_seconds regional": 120,
	}
	if diff := cmp.Diff(want, quotas(t, registry)); diff != "" {
		t.Errorf("gauges (-want +got):\n%s", diff)
	}
}

// When no pool or claim names a class any more, the gauges of its quotas are deleted; those of
// quotas that other classes use are kept.
//
// Rule QUOTA-4.
func TestGaugesGoWithTheirQuotas(t *testing.T) {
	registry := prometheus.NewRegistry()
	k := New(nil, nil, metrics.New(registry))
	k.last["a"] = &provider.Catalog{
		QuotaLeft:     map[string]int64{"regional": 40, "addresses/a": 7},
		QuotaForecast: map[string]provider.Exhaustion{"addresses/a": {Left: 7, In: time.Minute}},
	}
	k.last["b"] = &provider.Catalog{QuotaLeft: map[string]int64{"regional": 40}}
	for _, s := range k.last {
		k.setQuotaGauges(s)
	}
	k.dropUnused([]string{"b"})
	if diff := cmp.Diff(map[string]float64{"karve_quota_remaining regional": 40}, quotas(t, registry)); diff != "" {
		t.Errorf("gauges (-want +got):\n%s", diff)
	}
	if k.Latest("a") != nil || k.Latest("b") == nil {
		t.Error("of the two classes the wrong one is forgotten")
	}
}

// quotas reads the gauges about quotas.
func quotas(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if labels := m.GetLabel(); len(labels) == 1 && labels[0].GetName() == "quota" {
				got[f.GetName()+" "+labels[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return got
}
