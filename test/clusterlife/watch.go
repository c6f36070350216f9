// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
)

// Fault is a promise that was broken.
type Fault struct {
	At   time.Time
	Rule string // the rule that was broken, in a word
	Text string
}

func (f Fault) String() string { return f.At.Format("15:04:05") + " " + f.Rule + ": " + f.Text }

// Watch compares events with the promises made to users. It looks at the true state only
// and evaluates budgets, PodDisruptionBudgets and prices itself.
type Watch struct {
	c      *Cluster
	Faults []Fault
	Rests  int // times that the fleet was at rest and was compared with earlier states

	outside int // changes that karve did not decide: workloads, nodes, prices
	saved   int // moves for money that are over
	fleets  map[string]visit
	stirred int           // changes of the cluster when its fleet was looked at
	prices  int           // price changes
	frozen  map[*move]int // prices when a move was chosen
}

func newWatch(c *Cluster) *Watch {
	return &Watch{c: c, fleets: map[string]visit{}, frozen: map[*move]int{}}
}

func (w *Watch) fault(rule, format string, args ...any) {
	f := Fault{w.c.now, rule, fmt.Sprintf(format, args...)}
	w.Faults = append(w.Faults, f)
	w.c.note("FAULT %s", f)
}

// chosen: nodes that may not be disturbed are never chosen.
func (w *Watch) chosen(m *move) {
	w.frozen[m] = w.prices
	w.entitled(m)
	w.pays(m)
	for _, n := range m.nodes {
		if until := w.c.resting[n.key]; until.After(w.c.now) {
			w.fault("resting", "move %d takes %s, which rests until %s", m.id, n.key, until.Format(time.TimeOnly))
		}
	}
}

// confirmed: a move that is still valid is the decided one, or a part of it.
func (w *Watch) confirmed(m *move, now disrupt.Move) {
	for _, key := range now.Nodes {
		if !slices.Contains(m.Move.Nodes, key) {
			w.fault("subset", "move %d gained %s when it was looked at again", m.id, key)
		}
	}
	if len(now.Launches) > len(m.Launches) {
		w.fault("subset", "move %d buys %d instead of %d when it was looked at again", m.id, len(now.Launches), len(m.Launches))
	}
}

// tainted: at this moment the nodes of the move begin to be disturbed.
func (w *Watch) tainted(m *move) {
	w.entitled(m)
	w.pays(m)
	w.budgets(m)
	w.placed(m)
	for _, n := range m.nodes {
		w.undisturbed(m, n)
	}
}

// entitled: quiet for long enough, old enough, of a pool that allows it; or due.
func (w *Watch) entitled(m *move) {
	for _, n := range m.nodes {
		p := n.pool
		switch {
		case n.initialized.IsZero() || n.deleting:
			w.fault("candidate", "move %d takes %s, which is not initialized or goes already", m.id, n.key)
		case m.Cause == disrupt.Drifted:
			if n.version == p.Version {
				w.fault("due", "move %d replaces %s, which has not drifted", m.id, n.key)
			}
		case m.Cause == disrupt.Expired:
			if p.ExpireAfter == 0 || w.c.now.Sub(n.created) < p.ExpireAfter {
				w.fault("due", "move %d replaces %s, which has not expired", m.id, n.key)
			}
		case p.ConsolidateAfter < 0:
			w.fault("never", "move %d takes %s, whose pool never consolidates", m.id, n.key)
		case w.c.now.Sub(n.quiet()) < p.ConsolidateAfter:
			w.fault("quiet", "move %d takes %s, quiet for %s of %s", m.id, n.key, w.c.now.Sub(n.quiet()), p.ConsolidateAfter)
		case m.Cause == disrupt.Empty && len(n.pods) > 0 && slices.ContainsFunc(n.pods, func(p *pod) bool { return !p.dying }):
			w.fault("empty", "move %d takes %s as empty", m.id, n.key)
		case m.Cause == disrupt.Underutilized && p.Policy == disrupt.WhenEmpty:
			w.fault("policy", "move %d takes %s, whose pool gives back empty nodes only", m.id, n.key)
		case m.Cause == disrupt.Underutilized && w.c.now.Sub(n.created) < w.age(p):
			w.fault("age", "move %d takes %s, %s old of %s", m.id, n.key, w.c.now.Sub(n.created), w.age(p))
		}
	}
}

func (w *Watch) age(p *Pool) time.Duration {
	if p.MinAge < 0 {
		return w.c.Settings.MinAge
	}
	return p.MinAge
}

// pays: a move for money is cheaper afterwards, whichever offering is launched, and by as
// much as its pools ask for.
func (w *Watch) pays(m *move) {
	if !m.voluntary() {
		return
	}
	var before, after offering.Price
	least := 0.0
	for _, n := range m.nodes {
		price := w.c.market.price(n.deal)
		before += price
		least += n.pool.MinSavings * float64(price)
	}
	for _, l := range m.Launches {
		dearest := offering.Price(0)
		for _, choice := range l.Offerings {
			dearest = max(dearest, w.c.market.price(deal{choice.Type, choice.Zone, choice.CapacityType}))
		}
		after += dearest
	}
	if after >= before {
		w.fault("cheaper", "move %d: %s before, up to %s after", m.id, before, after)
	}
	if len(m.Launches) > 0 && float64(before-after) < least-1 {
		w.fault("thrift", "move %d saves %s of %s, less than asked for", m.id, before-after, before)
	}
}

// budgets counts the disrupted nodes in each pool of the move, the move included, and checks every
// budget.
func (w *Watch) budgets(m *move) {
	for _, p := range w.c.Pools {
		nodes, down, mine := 0, 0, 0
		for _, n := range w.c.machines {
			if n.pool != p || n.initialized.IsZero() || n.terminating {
				continue
			}
			nodes++
			switch {
			case n.move == m:
				mine++
				down++
			case n.notReady || n.deleting || n.tainted:
				down++
			}
		}
		if mine == 0 {
			continue
		}
		allowed := math.MaxInt
		for _, b := range p.Budgets {
			allowed = min(allowed, b.allows(nodes, m.Cause, w.c.now))
		}
		if down > allowed {
			w.fault("budget", "move %d (%s): %d of %d nodes of %s are down, %d allowed", m.id, m.Cause, down, nodes, p.Name, allowed)
		}
	}
}

// undisturbed: do-not-disrupt is honoured, unless the node's grace period overrides it.
func (w *Watch) undisturbed(m *move, n *machine) {
	if n.stays {
		w.fault("do-not-disrupt", "move %d takes %s, which is annotated", m.id, n.key)
	}
	if !m.voluntary() && n.pool.Grace > 0 {
		return
	}
	for _, p := range n.pods {
		switch {
		case p.dying:
		case p.owner.DoNotDisrupt && (p.owner.ProtectFor == 0 || w.c.now.Sub(p.bound) < p.owner.ProtectFor):
			w.fault("do-not-disrupt", "move %d takes %s under %s", m.id, n.key, p.uid)
		case p.owner.Every == 0 && p.owner.MaxDown >= 0 && healthy(p.owner) <= p.owner.Replicas-p.owner.MaxDown:
			w.fault("pdb", "move %d takes %s, where %s may not be evicted", m.id, n.key, p.uid)
		}
	}
}

func healthy(w *workload) int {
	n := 0
	for _, p := range w.pods {
		if p.ready && !p.dying {
			n++
		}
	}
	return n
}

// launched, drains: replacements are ready before anything is drained, and cost what the plan
// says.
func (w *Watch) launched(m *move) {
	if len(m.bought) != len(m.Launches) {
		w.fault("replacement", "move %d ordered %d of %d replacements", m.id, len(m.bought), len(m.Launches))
	}
}

func (w *Watch) drains(m *move) {
	var before, after offering.Price
	for _, n := range m.nodes {
		before += w.c.market.price(n.deal)
	}
	for _, r := range m.bought {
		after += w.c.market.price(r.deal)
		if !r.ready() {
			w.fault("replacement", "move %d drains before %s is ready", m.id, r.key)
		}
	}
	if m.voluntary() && w.frozen[m] == w.prices && after >= before {
		w.fault("cheaper", "move %d went from %s to %s", m.id, before, after)
	}
}

// evicts: pods are evicted by the rules of their disruption budget, and only when they may be.
func (w *Watch) evicts(p *pod, n *machine, forced bool) {
	if forced {
		if n.deadline.IsZero() || w.c.now.Before(n.deadline.Add(-p.owner.Grace)) {
			w.fault("grace", "%s is forced out of %s too early", p.uid, n.key)
		}
		return
	}
	if o := p.owner; o.Every == 0 && o.MaxDown >= 0 && healthy(o) <= o.Replicas-o.MaxDown {
		w.fault("pdb", "%s is evicted while %d of %d are healthy and %d may be down", p.uid, healthy(o), o.Replicas, o.MaxDown)
	}
	if o := p.owner; o.DoNotDisrupt && (o.ProtectFor == 0 || w.c.now.Sub(p.bound) < o.ProtectFor) {
		w.fault("do-not-disrupt", "%s is evicted", p.uid)
	}
	if m := n.move; m != nil && slices.ContainsFunc(m.bought, func(r *machine) bool { return r.initialized.IsZero() }) {
		w.fault("replacement", "%s is evicted before the replacements are there", p.uid)
	}
}

// bought: limits hold at every launch, counting the largest possible offering of nodes in flight.
func (w *Watch) bought(m *machine) {
	if m.pool.LimitCPU == 0 {
		return
	}
	var cores int64
	for _, n := range w.c.machines {
		if n.pool != m.pool {
			continue
		}
		if n.deal.typ != "" {
			cores += w.c.market.bySize[n.deal.typ].cores
			continue
		}
		most := int64(0)
		for _, choice := range n.choices {
			most = max(most, w.c.market.bySize[choice.Type].cores)
		}
		cores += most
	}
	if cores > m.pool.LimitCPU {
		w.fault("limits", "%s has %d cores of %d", m.pool.Name, cores, m.pool.LimitCPU)
	}
}

// done: a move is over.
func (w *Watch) done(m *move) {
	if !m.voluntary() {
		// Time asked for it: the replacement may be more expensive or equal to the node before.
		w.outside++
		return
	}
	if m.stage == draining {
		w.saved++
	}
}

// visit is the last time that a fleet was seen.
type visit struct{ outside, saved, undone int }

// fleet looks for cycles: whenever no move is under way and no pod waits, nodes of a kind are
// counted, wherever they are as long as they cost the same. After a move for money, the counts
// must equal none of the earlier ones, unless something changed from outside. It is called a
// relapse when kube-scheduler undid a move.
func (w *Watch) fleet() {
	if w.stirred == w.c.stir || !w.rest() {
		return
	}
	w.stirred = w.c.stir
	w.Rests++
	kinds := make([]string, len(w.c.machines))
	for i, n := range w.c.machines {
		kinds[i] = fmt.Sprint(n.pool.Name, n.version, n.deal.typ, n.deal.capacity, w.c.market.price(n.deal))
	}
	slices.Sort(kinds)
	key := strings.Join(kinds, "\n")
	was, seen := w.fleets[key]
	if seen && was.outside == w.outside && was.saved < w.saved {
		rule := "cycle"
		if was.undone < w.c.Stats.Undone {
			rule = "relapse"
		}
		w.fault(rule, "the fleet is what it was %d moves before, and nothing changed from outside", w.saved-was.saved)
	}
	w.fleets[key] = visit{w.outside, w.saved, w.c.Stats.Undone}
}

// rest reports whether every pod runs and no node is launched or deleted.
func (w *Watch) rest() bool {
	return !slices.ContainsFunc(w.c.moves, func(m *move) bool { return m.stage >= launched && m.stage != over }) &&
		!slices.ContainsFunc(w.c.pods, func(p *pod) bool { return p.node == nil }) &&
		!slices.ContainsFunc(w.c.machines, func(n *machine) bool { return n.initialized.IsZero() || n.deleting })
}

// happened records that something changed from outside.
func (w *Watch) happened() { w.outside++ }

// look is called at every instant.
func (w *Watch) look() {
	for _, n := range w.c.machines {
		if n.initialized.IsZero() {
			continue
		}
		if milli, mib, pods := n.free(); milli < 0 || mib < 0 || pods < 0 {
			w.fault("room", "%s is overcommitted", n.key)
		}
		if n.gone && len(n.pods) > 0 {
			w.fault("lost", "%s is gone with pods on it", n.key)
		}
	}
	w.fleet()
}

// explained: every node that is kept has a reason.
func (w *Watch) explained(p disrupt.Plan) {
	if !p.Done {
		return
	}
	said := map[string]bool{}
	for _, l := range p.Kept {
		said[l.Key] = l.Because != ""
	}
	for _, m := range p.Moves {
		for _, key := range m.Nodes {
			said[key] = true
		}
	}
	for _, n := range w.c.machines {
		if n.move == nil && !n.deleting && !n.initialized.IsZero() && !said[n.key] {
			w.fault("explained", "nobody says why %s stays", n.key)
		}
	}
}

// placed: every pod that a voluntary move disturbs has a node in it, and existing
// nodes have the capacity.
func (w *Watch) placed(m *move) {
	if !m.voluntary() {
		return
	}
	places := map[string]int{}
	for _, h := range m.Receivers {
		w.holds(m, h.Node, h.Pods, places)
	}
	for _, l := range m.Launches {
		for _, ref := range l.Pods {
			places[ref.UID]++
		}
	}
	for _, n := range m.nodes {
		for _, p := range n.pods {
			if !p.dying && places[p.uid] != 1 {
				w.fault("placed", "move %d says %d times where %s goes", m.id, places[p.uid], p.uid)
			}
		}
	}
}

// holds: the node is none of those that the move deletes, and takes the pods in turn.
func (w *Watch) holds(m *move, key string, pods []cluster.PodRef, places map[string]int) {
	n := w.c.machine(key)
	if n == nil || n.gone || n.deleting || n.move != nil || n.initialized.IsZero() {
		w.fault("home", "move %d sends pods to %s, which is no home", m.id, key)
		return
	}
	milli, mib, room := n.free()
	for _, ref := range pods {
		places[ref.UID]++
		p := w.c.find(ref.UID)
		if p == nil || p.node == nil || p.node.move != m {
			w.fault("placed", "move %d sends %s somewhere, which is not its to move", m.id, ref.UID)
			continue
		}
		o := p.owner
		milli, mib, room = milli-o.Milli, mib-o.MiB, room-1
		if !o.admitted(n) || o.Apart && n.runs(o) {
			w.fault("home", "move %d sends %s to %s, which does not take it", m.id, p.uid, key)
		}
	}
	if milli < 0 || mib < 0 || room < 0 {
		w.fault("home", "move %d sends more to %s than fits", m.id, key)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
