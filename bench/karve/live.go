// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// Live decides about a fleet to which pods come and from which they go, by a clock that At sets.
// Pods and budgets come through Observe.
type Live struct{ disruption *Disruption }

// NewLive brings up the Mirror of s.
func NewLive(s *scenario.Scenario) *Live {
	d := NewDisruption(s)
	d.budgets = d.mirror.PDBs()
	return &Live{d}
}

// At sets the time.
func (l *Live) At(now time.Time) { l.disruption.now = now }

// Observe applies what changed to the Mirror.
func (l *Live) Observe(delta fleet.Delta) error { return l.disruption.Observe(delta) }

// Next searches the whole cluster for nodes to remove.
func (l *Live) Next() (consolidate.Round, error) {
	r, err := l.disruption.Next()
	l.disruption.moves = nil // of days: nothing asks for them
	return r, err
}

// Provision plans for the pods that wait.
func (l *Live) Provision() (fleet.Change, error) {
	out := fleet.Change{Receivers: map[string][]types.UID{}}
	var plan schedule.Plan
	l.disruption.mirror.View(func(w *cluster.Snapshot) { plan = schedule.Solve(w) })
	place(&out, plan.Nominations, plan.Launches)
	return out, nil
}
