// Package consolidate lets a side of the benchmark shrink a fleet until it finds
// nothing more to do, and says how long that took and what came of it. Only deciding
// is timed: what a decision sets in motion happens at once.
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
	// Next decides what to do now. Done is set when nothing more is to be found; without
	// any change and not Done it is asked again.
	Next() (Round, error)
	// Observe tells it what became of a change.
	Observe(fleet.Delta) error
}

// Round is what Next decided.
type Round struct {
	Changes []fleet.Change
	Done    bool
}

// Outcome is how it went.
type Outcome struct {
	Pass, Converge measure.Sample
	Before, After  float64 // $/h
	Nodes          int     // left
	Evictions      int
	Bought         int
	Rounds         int // that changed something
	TimedOut       bool
	Fleet          *fleet.Fleet
	// Course is what was reached after each change.
	Course []Point
}

// Point is a moment in the course of events.
type Point struct {
	Price     float64 // $/h
	Evictions int
}

// EvictionsAt is how many pods had moved when all nodes cost no more than that for the
// first time; false when they never did.
func (o Outcome) EvictionsAt(price float64) (int, bool) {
	for _, p := range append([]Point{{Price: o.Before}}, o.Course...) {
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
// computed for as long if the machine had others to serve.
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
	o.Nodes, o.Evictions, o.Bought = len(o.Fleet.Nodes), o.Fleet.Evictions, o.Fleet.Bought
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
		o.Course = append(o.Course, Point{Price: o.Fleet.Price().USD(), Evictions: o.Fleet.Evictions})
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
