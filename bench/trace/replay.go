// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// Side is a provisioner that decides about its own fleet.
type Side interface {
	// At sets the time.
	At(now time.Time)
	// Observe applies what changed.
	Observe(fleet.Delta) error
	// Provision decides where pods that wait go.
	Provision() (fleet.Change, error)
	// Next decides which nodes go.
	Next() (consolidate.Round, error)
}

const (
	// pause is from when pods were placed until the side looks for nodes that may go, and from one
	// such look that changed something to the next: to bind pods, and to drain nodes, takes time.
	pause = 30 * time.Second
	// young pods have only just arrived.
	young = 30 * time.Minute
)

// Outcome is what a side did.
type Outcome struct {
	Hours float64
	USD   float64 // for all nodes
	// Bound is the least that nodes for these pods could cost, USD; see bound.
	Bound float64
	// Evictions counts each eviction, Young those of young pods, Replacing those by changes that
	// launched nodes.
	Evictions, Young, Replacing int
	// PodDays is how long pods were there, together.
	PodDays float64
	// Pending is how long pods waited for a node, together.
	Pending time.Duration
	// CPU is the computing time of all decisions, Longest the time of one by the clock.
	CPU, Longest time.Duration
	Launched     int
	PeakNodes    int
	// Machines has what was paid for each instance type, USD.
	Machines map[string]float64
}

// Replay lets the side live through the workload. It ends with an error when the side loses a
// pod, evicts one that must stay, or puts one where kube-scheduler would not.
//
// progress, if any, is called before each bin with what came of those before.
func Replay(s *scenario.Scenario, w *Workload, side Side, progress func(Outcome)) (Outcome, error) {
	f, err := fleet.New(s)
	if err != nil {
		return Outcome{}, err
	}
	least, err := newBound(s)
	if err != nil {
		return Outcome{}, err
	}
	r := &replay{Fleet: f, side: side, bound: least, live: judge.NewLive(), arrived: map[types.UID]*corev1.Pod{}, price: map[string]float64{}}
	r.out.Machines = map[string]float64{}
	defer r.live.Close()
	for i := range w.bins {
		if progress != nil {
			progress(r.after(i))
		}
		if err := r.bin(&w.bins[i]); err != nil {
			return r.out, fmt.Errorf("%v after the beginning: %w", time.Duration(i)*Bin, err)
		}
	}
	return r.after(len(w.bins)), nil
}

type replay struct {
	*fleet.Fleet
	side    Side
	bound   *bound
	live    *judge.Live
	arrived map[types.UID]*corev1.Pod // that have not ended, as they came
	price   map[string]float64        // by node, USD/h
	out     Outcome
}

// bin is five minutes: pods come and get nodes, others end, then nodes go.
func (r *replay) bin(e *events) error {
	r.Now = e.at
	r.side.At(e.at)
	for _, p := range e.arriving {
		r.arrived[p.UID] = p
		r.bound.add(p)
	}
	if err := r.see(r.Arrive(e.arriving, e.budgets)); err != nil {
		return err
	}
	if err := r.provision(); err != nil {
		return err
	}
	for _, uid := range e.ending {
		r.bound.remove(r.arrived[uid])
		delete(r.arrived, uid)
	}
	if err := r.see(r.End(e.ending, e.over)); err != nil {
		return err
	}
	if err := r.disrupt(e.at.Add(Bin)); err != nil {
		return err
	}
	return r.account()
}

// see shows a change to the side and to the judge.
func (r *replay) see(d fleet.Delta) error {
	for _, p := range d.Ended {
		r.live.Remove(p.UID)
	}
	for _, p := range d.Moved {
		r.live.Remove(p.UID)
	}
	for _, n := range d.Gone {
		r.live.RemoveNode(n)
	}
	for _, n := range d.Nodes {
		r.live.AddNode(n)
		price, err := r.Scenario.Price(scenario.InstanceOf(n))
		if err != nil {
			return err
		}
		r.price[n.Name] = price.USD()
	}
	for _, pods := range [][]*corev1.Pod{d.Started, d.Bound, d.Moved} {
		r.live.Bind(pods)
	}
	return r.side.Observe(d)
}

func (r *replay) provision() error {
	if len(r.Waiting) == 0 {
		return nil
	}
	var c fleet.Change
	if err := r.timed(func() (err error) { c, err = r.side.Provision(); return err }); err != nil {
		return err
	}
	return r.apply(c)
}

// disrupt lets the side look until it finds nothing more to do, or the bin ends.
func (r *replay) disrupt(end time.Time) error {
	if err := r.settle(); err != nil {
		return err
	}
	for r.Now = r.Now.Add(pause); r.Now.Before(end); r.Now = r.Now.Add(pause) {
		r.side.At(r.Now)
		var round consolidate.Round
		if err := r.timed(func() (err error) { round, err = r.side.Next(); return err }); err != nil {
			return err
		}
		for _, c := range round.Changes {
			if err := r.apply(c); err != nil {
				return err
			}
		}
		if len(round.Changes) == 0 {
			return nil
		}
		if err := r.settle(); err != nil {
			return err
		}
	}
	return nil
}

// settle has the claims say which nodes have been quiet for long enough.
func (r *replay) settle() error {
	return r.see(r.Settle(*r.Pools[0].Spec.Disruption.ConsolidateAfter.Duration))
}

// timed measures a decision.
func (r *replay) timed(decide func() error) (err error) {
	took := measure.Light(func() { err = decide() })
	r.out.CPU += took.CPU
	r.out.Longest = max(r.out.Longest, took.Took)
	return err
}

// apply makes the change, and asks the judge about every pod that has a node by it.
func (r *replay) apply(c fleet.Change) error {
	d, err := r.Apply(c)
	if err != nil {
		return err
	}
	if len(c.Launches) > 0 {
		r.out.Replacing += len(d.Moved)
	}
	for _, p := range d.Moved {
		if r.Now.Sub(r.arrived[p.UID].CreationTimestamp.Time) < young { // its own time is that of its last move
			r.out.Young++
		}
	}
	if err := r.see(d); err != nil {
		return err
	}
	for _, pods := range [][]*corev1.Pod{d.Bound, d.Moved} {
		if wrong := r.live.Standing(pods); len(wrong) > 0 {
			return fmt.Errorf("%d of %d pods are where kube-scheduler would not put them: %s", len(wrong), len(pods), wrong[0])
		}
	}
	return nil
}

// account adds up what the bin costs as the fleet is now.
func (r *replay) account() error {
	if all := len(r.Pods) + len(r.Waiting) - len(r.DaemonSets)*len(r.Nodes); all != len(r.arrived) {
		return fmt.Errorf("there are %d pods, of %d", all, len(r.arrived))
	}
	r.out.USD += r.Price().USD() * Bin.Hours()
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) { // in one order, as sums are rounded
		r.out.Machines[r.Nodes[name].Labels[corev1.LabelInstanceTypeStable]] += r.price[name] * Bin.Hours()
	}
	r.out.Bound += r.bound.price() * Bin.Hours()
	r.out.PodDays += float64(len(r.arrived)) * Bin.Hours() / 24
	r.out.Pending += time.Duration(len(r.Waiting)) * Bin
	r.out.PeakNodes = max(r.out.PeakNodes, len(r.Nodes))
	return nil
}

// after is the outcome after so many bins.
func (r *replay) after(bins int) Outcome {
	out := r.out
	out.Hours = float64(bins) * Bin.Hours()
	out.Evictions, out.Launched = r.Evictions, r.Launched
	return out
}
