// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// brokenDecider is a Decider that gives the engine wrong facts, or whose answers are tampered
// with: the effect of a mistake in a rule.
type brokenDecider struct {
	Engine
	facts func(*disrupt.Input)
	plan  func(*disrupt.Plan)
	late  func(*disrupt.Move) // once it was looked at again
	solve func(*schedule.Plan)
}

func (b brokenDecider) Solve(snapshot *cluster.Snapshot) schedule.Plan {
	p := b.Engine.Solve(snapshot)
	if b.solve != nil {
		b.solve(&p)
	}
	return p
}

func (b brokenDecider) Search(snapshot *cluster.Snapshot, in disrupt.Input) disrupt.Plan {
	b.changeInput(&in)
	p := b.Engine.Search(snapshot, in)
	b.changePlan(&p)
	return p
}

func (b brokenDecider) Recheck(snapshot *cluster.Snapshot, in disrupt.Input, m disrupt.Move) (disrupt.Move, disrupt.Kept) {
	b.changeInput(&in)
	now, left := b.Engine.Recheck(snapshot, in, m)
	if left.Because != "" {
		return now, left
	}
	p := disrupt.Plan{Moves: []disrupt.Move{now}}
	b.changePlan(&p)
	if b.late != nil {
		b.late(&p.Moves[0])
	}
	return p.Moves[0], left
}

func (b brokenDecider) changePlan(p *disrupt.Plan) {
	if b.plan != nil {
		b.plan(p)
	}
}

func (b brokenDecider) changeInput(in *disrupt.Input) {
	if b.facts != nil {
		b.facts(in)
	}
}

// without drops the blocks for one reason.
func without(in *disrupt.Input, drop func(disrupt.Block) bool) {
	for i := range in.Nodes {
		in.Nodes[i].Blocks = slices.DeleteFunc(slices.Clone(in.Nodes[i].Blocks), drop)
	}
}

// TestBrokenRulesAreFound breaks the engine's rules one at a time. Each time the Checker
// must report the rule that was broken, within the first hours of some clusters.
func TestBrokenRulesAreFound(t *testing.T) {
	pools := func(change func(*disrupt.Pool)) func(*disrupt.Input) {
		return func(in *disrupt.Input) {
			for i := range in.Pools {
				change(&in.Pools[i])
			}
		}
	}
	for rule, decider := range map[string]brokenDecider{
		"budget": {facts: pools(func(p *disrupt.Pool) {
			for i := range p.Budgets {
				p.Budgets[i].Nodes++
			}
		})},
		"do-not-disrupt": {facts: func(in *disrupt.Input) {
			without(in, func(b disrupt.Block) bool { return b.Because == disrupt.DoNotDisrupt })
		}},
		"pdb": {facts: func(in *disrupt.Input) {
			without(in, func(b disrupt.Block) bool { return b.Because == disrupt.PodDisruptionBudget })
		}},
		"quiet":       {facts: pools(func(p *disrupt.Pool) { p.ConsolidateAfter /= 2 })},
		"age":         {facts: pools(func(p *disrupt.Pool) { p.MinAge = 0 })},
		"min-savings": {facts: pools(func(p *disrupt.Pool) { p.MinSavings = &disrupt.MinSavings{} })},
		"policy":      {facts: pools(func(p *disrupt.Pool) { p.Policy = disrupt.WhenEmptyOrUnderutilized })},
		"due": {facts: func(in *disrupt.Input) {
			for i := range in.Nodes {
				in.Nodes[i].Due = []disrupt.DueCause{{Cause: disrupt.Drifted, Detail: "NodePoolDrifted", Since: in.Nodes[i].Created}}
			}
		}},
		// The launch may use an offering that it must not.
		"cheaper": {plan: func(p *disrupt.Plan) {
			for i := range p.Moves {
				for j := range p.Moves[i].Launches {
					l := &p.Moves[i].Launches[j]
					expensive := l.Offerings[len(l.Offerings)-1]
					expensive.Type = "D16as"
					l.Offerings = append(slices.Clone(l.Offerings), expensive)
				}
			}
		}},
		"placed": {plan: func(p *disrupt.Plan) {
			for i := range p.Moves {
				if h := p.Moves[i].Nominations; len(h) > 0 {
					p.Moves[i].Nominations = h[1:]
				}
			}
		}},
		"explained": {plan: func(p *disrupt.Plan) { p.Kept = p.Kept[:max(0, len(p.Kept)-1)] }},
		"disjoint":  {plan: func(p *disrupt.Plan) { p.Moves = append(p.Moves, p.Moves...) }},
	} {
		t.Run(rule, func(t *testing.T) {
			for seed := range uint64(20) {
				c := Day(seed, decider)
				for range 10 {
					c.Live(time.Hour)
					if slices.ContainsFunc(c.Checker.Violations, func(f Violation) bool { return f.Rule == rule }) {
						return
					}
				}
			}
			t.Errorf("no violation is found")
		})
	}
}

// TestCyclesAreFound has moves undone on purpose: by a replacement that equals the node that was
// there before, and by one that is missing and must be launched for the pods that wait.
func TestCyclesAreFound(t *testing.T) {
	expensive := func(all []schedule.Launch) {
		for i, l := range all {
			all[i].Offerings = slices.Clone(l.Offerings)
			for j := range l.Offerings {
				all[i].Offerings[j].Type = "D4s"
			}
		}
	}
	for rule, decider := range map[string]brokenDecider{
		"cycle":   {late: func(m *disrupt.Move) { expensive(m.Launches) }},
		"relapse": {late: func(m *disrupt.Move) { m.Launches = nil }, solve: func(p *schedule.Plan) { expensive(p.Launches) }},
	} {
		t.Run(rule, func(t *testing.T) {
			c := withCheaperType(decider, 12)
			c.Durations.SearchInterval = 10 * time.Minute
			c.Live(2 * time.Hour)
			if !slices.ContainsFunc(c.Checker.Violations, func(f Violation) bool { return f.Rule == rule }) {
				t.Errorf("no violation is found; %+v", c.Stats)
			}
		})
	}
}

// withCheaperType is a settled cluster of D4s nodes when the cheaper D4as becomes available.
func withCheaperType(decider Decider, pods int) *Cluster {
	p := &Pool{Name: "general", ConsolidateAfter: 30 * time.Second, Budgets: []Budget{{Nodes: "1"}}, MinAge: -1, Types: []string{"D4s", "D4as"}, CapacityTypes: []string{offering.OnDemand}}
	c := New(1, decider, p)
	withoutCheapest(c)
	c.workloads.deploy(&workload{Name: "web", Milli: 900, MiB: 1200, Replicas: pods, MaxUnavailable: -1, Grace: 10 * time.Second, Startup: 5 * time.Second})
	c.Live(10 * time.Minute)
	for _, z := range zones {
		c.SetUnavailable(offeringKey{"D4as", z, offering.OnDemand}, false)
	}
	return c
}
