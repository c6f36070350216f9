// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/reason"
)

// TestBufferKeptFromDomain (BUFFER-2): no node is launched for a virtual pod in an empty zone that would
// keep a spread pod, bound last, off its node, and the plan says so.
func TestBufferKeptFromDomain(t *testing.T) {
	f := funnelOfBuffer(t, `
type D4 cpu=4 mem=16Gi price=0.20 zones=1,2,3
pool all
pods old x2 cpu=2 mem=1Gi label:app=x require:zone=In:1
pods beside x1 cpu=4 mem=1Gi spread=zone:1:app=x
pods spare x1 cpu=4 mem=1Gi require:zone=In:3 virtual
`)
	last, ok := f.Last()
	if !ok || f.Left() > 0 || last.By != reason.Topology || !strings.Contains(last.Detail, "too uneven") {
		t.Errorf("explained as %+v", f)
	}
}

// TestBufferKeptFromOpenLabel (BUFFER-2): the same over a label that the pool leaves open. Its values that
// no launch has chosen are no domains yet.
func TestBufferKeptFromOpenLabel(t *testing.T) {
	f := funnelOfBuffer(t, `
type D4 cpu=4 mem=16Gi price=0.20 zones=1
pool all require:team=In:a|b|c
pods old x2 cpu=2 mem=1Gi label:app=x require:team=In:a
pods beside x1 cpu=4 mem=1Gi spread=team:1:app=x
pods spare x1 cpu=4 mem=1Gi label:app=s anti-affinity=team:app=s require:team=In:b virtual
`)
	if last, ok := f.Last(); !ok || f.Left() > 0 || last.By != reason.Topology {
		t.Errorf("explained as %+v", f)
	}
}

// funnelOfBuffer is why the one virtual pod of the script is left out, beside two launches.
func funnelOfBuffer(t *testing.T, text string) reason.Funnel {
	t.Helper()
	script, err := enginetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	plan := byZeroPolicy(script.Snapshot()) // others find a place for it
	if len(plan.Unplaced) != 1 || len(plan.Launches) != 2 {
		t.Fatalf("%d launches, left out: %v", len(plan.Launches), plan.Unplaced)
	}
	return plan.Unplaced[0].Funnels[0]
}
