// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube/state"
)

// reporter keeps the gauges about the mirror itself current, and lets the mirror forget deleted
// objects, on leaders and on replicas that do not lead.
type reporter struct {
	mirror  *state.Mirror
	metrics *metrics.Set
}

// Start reports until the context ends.
func (r *reporter) Start(ctx context.Context) error {
	since := time.Now()
	for {
		if r.mirror.Synced() {
			r.mirror.Tidy()
			since = time.Now()
			r.metrics.Synced.Set(1)
		} else {
			r.metrics.Synced.Set(0)
		}
		r.metrics.Unsynced.Set(time.Since(since).Seconds())
		r.metrics.Nodes.Set(float64(r.mirror.CountNodes()))
		r.metrics.QueueDepth.WithLabelValues("provisioner").Set(float64(r.mirror.CountWaiting()))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}

// NeedLeaderElection is false: a standby's view is of interest too.
func (r *reporter) NeedLeaderElection() bool { return false }

func buildInfo(registry prometheus.Registerer, version string) {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "karpenter_build_info", Help: "1, labelled with what was built.",
	}, []string{"version", "goversion", "goarch", "commit"})
	registry.MustRegister(gauge)
	gauge.WithLabelValues(version, runtime.Version(), runtime.GOARCH, commit).Set(1)
}
