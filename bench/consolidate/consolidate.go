// SPDX-License-Identifier: Apache-2.0

// Package consolidate lets one side of the benchmark consolidate a fleet until it finds
// no further move, and reports duration and result. Only deciding is timed: a decision
// is applied at once.
package consolidate

import (
	"fmt"
	"time"

	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// Decider is one side.
type Decider interface {
	// Pass looks at the whole cluster once and changes nothing.
	Pass() error
	// Next decides the next changes. Done is set when there is no further change; a round
	// without changes that is not Done is repeated.
	Next() (Round, error)
	// Observe applies the result of a change to the side's cluster.
	Observe(fleet.Delta) error
}

// Round is what Next decided.
type Round struct {
	Changes []fleet.Change
	Done    bool
}

// Outcome is the result of a run.
type Outcome struct {
	Pass, Converge measure.Sample
	Before, After  float64 // $/h
	Nodes          int     // left
	Evictions      int
	Launched       int
	Rounds         int // that changed something
	TimedOut       bool
	Fleet          *fleet.Fleet
	// History is price and evictions after each change.
	History []Point
}

// Point is the state after one change.
type Point struct {
	Price     float64 // $/h
	Evictions int
}

// EvictionsAt is how many pods had moved when all nodes cost no more than that for the
// first time; false when they never did.
func (o Outcome) EvictionsAt(price float64) (int, bool) {
	for _, p := range append([]Point{{Price: o.Before}}, o.History...) {
		if p.Price <= price {
			return p.Evictions, true
		}
	}
	return 0, false
}

// PerDollar is how many pods were evicted for each $/h saved; zero where nothing was.
func (o Outcome) PerDollar() float64 {
	if o.After >= o.Before {
		return 0
	}
	return float64(o.Evictions) / (o.Before - o.After)
}

// Run lets the side decide until it is done, or has decided for as long as limit, and
// used as much CPU time, which on a busy computer comes later.
func Run(s *scenario.Scenario, d Decider, limit time.Duration) (Outcome, error) {
	f, err := fleet.New(s)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Fleet: f, Before: f.Price().USD()}
	o.Pass = measure.Once(func() { err = d.Pass() })
	if err != nil {
		return o, fmt.Errorf("the first pass: %w", err)
	}
	for done := false; !done; {
		if o.TimedOut = over(o.Converge, limit); o.TimedOut {
			break
		}
		if done, err = o.round(d); err != nil {
			return o, err
		}
	}
	o.Nodes, o.Evictions, o.Launched = len(o.Fleet.Nodes), o.Fleet.Evictions, o.Fleet.Launched
	o.After = f.Price().USD()
	return o, nil
}

// over goes by the clock alone where computing time is not known.
func over(s measure.Sample, limit time.Duration) bool {
	return s.Took >= limit && (s.CPU >= limit || s.CPU == 0)
}

func (o *Outcome) round(d Decider) (done bool, err error) {
	var r Round
	took := measure.Once(func() { r, err = d.Next() })
	o.Converge.Took += took.Took
	o.Converge.CPU += took.CPU
	if err != nil {
		return false, fmt.Errorf("round %d: %w", o.Rounds+1, err)
	}
	if len(r.Changes) > 0 {
		o.Rounds++
	}
	for _, c := range r.Changes {
		delta, err := o.Fleet.Apply(c)
		if err != nil {
			return false, fmt.Errorf("round %d: %w", o.Rounds, err)
		}
		if err := d.Observe(delta); err != nil {
			return false, err
		}
		o.History = append(o.History, Point{Price: o.Fleet.Price().USD(), Evictions: o.Fleet.Evictions})
	}
	return r.Done, nil
}

// Audit says what is wrong with where the pods ended up: one that is lost, or one that
// kube-scheduler would not have put there.
func (o Outcome) Audit(s *scenario.Scenario) error {
	lost := 0
	for _, p := range s.Bound {
		if now := o.Fleet.Pods[p.UID]; now == nil && o.Fleet.Nodes[p.Spec.NodeName] != nil || now != nil && o.Fleet.Nodes[now.Spec.NodeName] == nil {
			lost++
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d pods are lost", lost)
	}
	if wrong := judge.Standing(o.Fleet.Nodes, o.Fleet.Pods, o.Fleet.Moved); len(wrong) > 0 {
		return fmt.Errorf("%d of %d pods that moved are where kube-scheduler would not put them: %s", len(wrong), len(o.Fleet.Moved), wrong[0])
	}
	return nil
}
