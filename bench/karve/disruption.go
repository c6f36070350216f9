// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// Disruption is karve's disruption decision over a fleet, made as the product makes it: the
// Mirror builds the snapshot from API objects; a pass converts nodes, NodePools and
// budgets and searches the whole cluster. Moves are applied at once.
type Disruption struct {
	mirror   *state.Mirror
	budgets  *state.PDBs
	scenario *scenario.Scenario
	settings disrupt.Settings
	now      time.Time      // of a Live; zero where no node is too new
	moves    []disrupt.Move // all that were decided
	left     []disrupt.Kept // of the last pass
}

// NewDisruption brings up the Mirror of s.
func NewDisruption(s *scenario.Scenario) *Disruption {
	d := &Disruption{mirror: state.NewMirror(nil), budgets: &state.PDBs{}, scenario: s, settings: disrupt.Defaults()}
	d.settings.SpotToSpot = true // on both sides
	d.mirror.SetSettings(s.Settings)
	for _, p := range s.Pools {
		d.mirror.SetPool(p)
	}
	d.mirror.SetCatalog(kube.ClassOf(s.Pools[0].Spec.Template.Spec.NodeClassRef), s.Types, nil)
	for _, ds := range s.DaemonSets {
		d.mirror.SetDaemon(ds)
	}
	for _, b := range s.PDBs {
		d.budgets.Set(b)
	}
	for i, n := range s.Nodes {
		d.mirror.SetClaim(s.Claims[i])
		d.mirror.SetNode(n)
	}
	for _, p := range s.Bound {
		d.mirror.SetPod(p, true)
	}
	d.mirror.View(func(*cluster.Snapshot) {})
	return d
}

// Observe applies a change to the Mirror, as its watches would.
func (d *Disruption) Observe(delta fleet.Delta) error {
	for _, p := range delta.Ended {
		d.end(p)
	}
	for _, b := range delta.PDBs {
		d.mirror.SetPDB(b)
	}
	for _, b := range delta.GonePDBs {
		d.mirror.RemovePDB(b)
	}
	for i, n := range delta.Nodes {
		d.mirror.SetClaim(delta.Claims[i])
		d.mirror.SetNode(n)
	}
	for _, c := range delta.Settled {
		d.mirror.SetClaim(c)
	}
	for _, p := range slices.Concat(delta.Arrived, delta.Started, delta.Moved, delta.Bound) {
		d.mirror.SetPod(p, false)
	}
	for i, n := range delta.Gone {
		d.mirror.RemoveNode(n)
		d.mirror.RemoveClaim(delta.GoneClaims[i])
	}
	return nil
}

// end shows a pod that ends as its watch would: first that it was asked to.
func (d *Disruption) end(p *corev1.Pod) {
	if !d.now.IsZero() {
		ended := *p // a shallow copy: nothing behind its pointers changes
		at := metav1.NewTime(d.now)
		ended.DeletionTimestamp = &at
		d.mirror.SetPod(&ended, false)
	}
	d.mirror.RemovePod(p)
}

// stays is how long pods may be expected to stay; where time does not matter, all do.
func (d *Disruption) stays() kube.Stays {
	if d.now.IsZero() {
		return kube.Stays{}
	}
	return kube.Stays{Lifetimes: d.mirror.Lifetimes(), Expected: d.settings.ExpectedStay}
}

// Pass searches the whole cluster.
func (d *Disruption) Pass() error {
	d.search()
	return nil
}

// search reads the cluster and decides, as one tick of the controller does.
func (d *Disruption) search() disrupt.Plan {
	now := d.now
	if now.IsZero() {
		now = time.Now().Add(time.Hour) // no node is too new
	}
	c := disrupt.Input{Now: now, Settings: d.settings}
	for _, p := range d.scenario.Pools {
		pool, _ := kube.DisruptionPool(p, now)
		c.Pools = append(c.Pools, pool)
	}
	nodes := d.mirror.ManagedNodes()
	c.Nodes = make([]disrupt.Node, len(nodes))
	panics.Each(len(nodes), func(i int) {
		m := nodes[i]
		if !d.now.IsZero() {
			m.Activity = time.Time{} // the Mirror saw it by another clock; the claim has it too
		}
		c.Nodes[i] = kube.DisruptionNode(m, d.budgets, d.stays(), false, now)
	})
	var plan disrupt.Plan
	d.mirror.View(func(w *cluster.Snapshot) { plan = disrupt.Search(w, c, disrupt.Cursor{}) })
	return plan
}

// Next is done when a pass over the whole cluster finds nothing to do.
func (d *Disruption) Next() (consolidate.Round, error) {
	plan := d.search()
	if !plan.Done {
		return consolidate.Round{}, fmt.Errorf("an unlimited search stopped at %+v", plan.Next)
	}
	d.moves, d.left = append(d.moves, plan.Moves...), plan.Kept
	r := consolidate.Round{Done: len(plan.Moves) == 0}
	for _, m := range plan.Moves {
		r.Changes = append(r.Changes, changeOf(m))
	}
	return r, nil
}

// changeOf converts a move; every launch gets its first offering. Nodes and their claims
// have the same name here.
func changeOf(m disrupt.Move) fleet.Change {
	out := fleet.Change{Gone: m.Nodes, Receivers: map[string][]types.UID{}}
	place(&out, m.Nominations, m.Launches)
	return out
}

// place adds where pods go to the change.
func place(to *fleet.Change, nominations []schedule.Nomination, launches []schedule.Launch) {
	for _, n := range nominations {
		to.Receivers[n.Node] = append(to.Receivers[n.Node], uids(n.Pods)...)
	}
	for _, l := range launches {
		c := l.Offerings[0]
		to.Launches = append(to.Launches, fleet.Launch{
			Instance: scenario.Instance{Pool: l.Pool, Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType}, Pods: uids(l.Pods),
		})
	}
}

func uids(refs []cluster.PodRef) []types.UID {
	out := make([]types.UID, len(refs))
	for i, r := range refs {
		out[i] = types.UID(r.UID)
	}
	return out
}
