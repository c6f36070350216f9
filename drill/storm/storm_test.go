package storm_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/drill/storm"
)

// A third of a cluster's spot machines is taken back within seconds: others are asked for
// within two seconds of the notice, and every pod has its grace or what is left.
//
// Rule 293, Rule 294.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := storm.Run(t, storm.Options{Seed: 1, Nodes: 60, Within: 2 * time.Second})
		t.Log(r)
		if r.Quantile(0.99) > 2*time.Second || len(r.Delays) != r.Evicted || r.Bought != r.Evicted || r.Throttled != 0 {
			t.Errorf("want as many machines as go, each asked for within 2 s, and nothing throttled: %v", r)
		}
		if len(r.Shorted) > 0 || r.Pods != r.Evicted {
			t.Errorf("pods got too little: %q", r.Shorted)
		}
	})
}
