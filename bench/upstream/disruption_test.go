// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/scenario"
)

// Upstream must do what it is known for, or the comparison means nothing: it saves
// much of what a shrunk cluster wastes, loses no pod, and comes to an end.
func TestUpstreamConsolidates(t *testing.T) {
	s, err := scenario.Consolidate(t.Context(), scenario.Overprovisioned{Nodes: 12, Budget: "100%"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDisruption(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := consolidate.Run(s, d, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Audit(s); err != nil {
		t.Error(err)
	}
	t.Logf("%d nodes at %.2f $/h to %d at %.2f in %d rounds, %d evictions, %v", len(s.Nodes), o.Before, o.Nodes, o.After, o.Rounds, o.Evictions, o.Converge.Took)
	if o.TimedOut || o.After > 0.75*o.Before || o.Evictions == 0 || o.Nodes >= 12 {
		t.Errorf("timed out: %v; from %.3f to %.3f $/h with %d evictions", o.TimedOut, o.Before, o.After, o.Evictions)
	}
}
