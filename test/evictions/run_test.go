// SPDX-License-Identifier: Apache-2.0

package evictions_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/test/evictions"
)

// Most of a cluster's spot VMs are taken back within seconds: others are asked for within
// two seconds of the notice, none of them waits for a read of Azure or comes after others, and
// every pod has its grace or what is left.
//
// Rule DRAIN-9, Rule VM-1, Rule INTERRUPTION-6, Rule INTERRUPTION-8.
func TestManyEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := evictions.Run(t, evictions.Options{Seed: 1, Nodes: 60, Evicted: 40, Within: 3 * time.Second, ReadTakes: 2 * time.Second})
		t.Log(r)
		if r.Quantile(0.99) > 2*time.Second || len(r.Delays) != r.Evicted || r.Bought != r.Evicted || r.Urgent != r.Evicted || r.Throttled != 0 {
			t.Errorf("want as many VMs as are evicted, each asked for urgently and within 2 s, and nothing throttled: %v", r)
		}
		if len(r.Shorted) > 0 || r.Pods != r.Evicted {
			t.Errorf("pods got too little: %q", r.Shorted)
		}
	})
}

// A metadata service that takes six seconds to answer costs the agents twelve at most: an answer
// may have been made up right before the notice.
//
// Rule INTERRUPTION-3.
func TestSlowMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := evictions.Run(t, evictions.Options{Seed: 1, Nodes: 24, Evicted: 12, SlowMetadata: true})
		t.Log(r)
		if r.Quantile(1) > 14*time.Second || r.Quantile(0) < 6*time.Second || len(r.Delays) != r.Evicted || r.Bought != r.Evicted || r.Urgent != r.Evicted {
			t.Errorf("want as many VMs as are evicted, each asked for urgently and 6 to 14 s after the notice: %v", r)
		}
	})
}
