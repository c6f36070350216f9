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

// Violation is a promise that was broken.
type Violation struct {
	At   time.Time
	Rule string // the rule that was broken, in a word
	Text string
}

func (f Violation) String() string { return f.At.Format("15:04:05") + " " + f.Rule + ": " + f.Text }

// Checker compares events with the promises made to users. It looks at the true state only
// and evaluates budgets, PodDisruptionBudgets and prices itself.
type Checker struct {
	c          *Cluster
	Violations []Violation
	Compared   int // times that the fleet was at rest and was compared with earlier states

	outsideChanges   int // changes that karve did not decide: workloads, nodes, prices
	savingMoves      int // moves for money that are over
	seenFleets       map[string]visit
	changesSeen      int           // changes of the cluster when its fleet was looked at
	priceChanges     int           // price changes
	pricesWhenChosen map[*move]int // prices when a move was chosen
}

func newChecker(c *Cluster) *Checker {
	return &Checker{c: c, seenFleets: map[string]visit{}, pricesWhenChosen: map[*move]int{}}
}

func (w *Checker) violation(rule, format string, args ...any) {
	f := Violation{w.c.now, rule, fmt.Sprintf(format, args...)}
	w.Violations = append(w.Violations, f)
	w.c.logf("FAULT %s", f)
}

// moveChosen: nodes that may not be disturbed are never chosen.
func (w *Checker) moveChosen(m *move) {
	w.pricesWhenChosen[m] = w.priceChanges
	w.checkCandidates(m)
	w.checkSavings(m)
	for _, n := range m.nodes {
		if until := w.c.disruption.backoff[n.key]; until.After(w.c.now) {
			w.violation("back-off", "move %d takes %s, which is backed off until %s", m.id, n.key, until.Format(time.TimeOnly))
		}
	}
}

// moveRechecked: a move that is still valid is the decided one, or a part of it.
func (w *Checker) moveRechecked(m *move, now disrupt.Move) {
	for _, key := range now.Nodes {
		if !slices.Contains(m.Move.Nodes, key) {
			w.violation("subset", "move %d gained %s when it was looked at again", m.id, key)
		}
	}
	if len(now.Launches) > len(m.Launches) {
		w.violation("subset", "move %d launches %d instead of %d when it was looked at again", m.id, len(now.Launches), len(m.Launches))
	}
}

// nodesTainted: at this moment the nodes of the move begin to be disturbed.
func (w *Checker) nodesTainted(m *move) {
	w.checkCandidates(m)
	w.checkSavings(m)
	w.checkBudgets(m)
	w.checkPlacements(m)
	for _, n := range m.nodes {
		w.checkPodsMayGo(m, n)
	}
}

// checkCandidates: quiet for long enough, old enough, of a pool that allows it; or due.
func (w *Checker) checkCandidates(m *move) {
	for _, n := range m.nodes {
		p := n.pool
		switch {
		case n.initialized.IsZero() || n.isDeleting():
			w.violation("candidate", "move %d takes %s, which is not initialized or goes already", m.id, n.key)
		case m.Cause == disrupt.Drifted:
			if n.version == p.Version {
				w.violation("due", "move %d replaces %s, which has not drifted", m.id, n.key)
			}
		case m.Cause == disrupt.Expired:
			if p.ExpireAfter == 0 || w.c.now.Sub(n.created) < p.ExpireAfter {
				w.violation("due", "move %d replaces %s, which has not expired", m.id, n.key)
			}
		case p.ConsolidateAfter < 0:
			w.violation("never", "move %d takes %s, whose pool never consolidates", m.id, n.key)
		case w.c.now.Sub(n.quietSince()) < p.ConsolidateAfter:
			w.violation("quiet", "move %d takes %s, quiet for %s of %s", m.id, n.key, w.c.now.Sub(n.quietSince()), p.ConsolidateAfter)
		case m.Cause == disrupt.Empty && len(n.pods) > 0 && slices.ContainsFunc(n.pods, func(p *pod) bool { return !p.terminating }):
			w.violation("empty", "move %d takes %s as empty", m.id, n.key)
		case m.Cause == disrupt.Underutilized && p.Policy == disrupt.WhenEmpty:
			w.violation("policy", "move %d takes %s, whose pool consolidates empty nodes only", m.id, n.key)
		case m.Cause == disrupt.Underutilized && w.c.now.Sub(n.created) < w.minAge(p):
			w.violation("age", "move %d takes %s, %s old of %s", m.id, n.key, w.c.now.Sub(n.created), w.minAge(p))
		}
	}
}

func (w *Checker) minAge(p *Pool) time.Duration {
	if p.MinAge < 0 {
		return w.c.Settings.MinAge
	}
	return p.MinAge
}

// checkSavings: a move for money is cheaper afterwards, whichever offering is launched, and by as
// much as its pools ask for.
func (w *Checker) checkSavings(m *move) {
	if !m.voluntary() {
		return
	}
	var before, after offering.Price
	least := 0.0
	for _, n := range m.nodes {
		price := w.c.catalog.price(n.offering)
		before += price
		least += n.pool.MinSavings * float64(price)
	}
	for _, l := range m.Launches {
		dearest := offering.Price(0)
		for _, choice := range l.Offerings {
			dearest = max(dearest, w.c.catalog.price(offeringKey{choice.Type, choice.Zone, choice.CapacityType}))
		}
		after += dearest
	}
	if after >= before {
		w.violation("cheaper", "move %d: %s before, up to %s after", m.id, before, after)
	}
	if len(m.Launches) > 0 && float64(before-after) < least-1 {
		w.violation("min-savings", "move %d saves %s of %s, less than asked for", m.id, before-after, before)
	}
}

// checkBudgets counts the disrupted nodes in each pool of the move, the move included, and checks
// every budget.
func (w *Checker) checkBudgets(m *move) {
	for _, p := range w.c.Pools {
		nodes, down, mine := 0, 0, 0
		for _, n := range w.c.nodes.list {
			if n.pool != p || n.initialized.IsZero() || n.phase >= terminating {
				continue
			}
			nodes++
			switch {
			case n.move == m:
				mine++
				down++
			case n.notReady || n.isDeleting() || n.tainted:
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
			w.violation("budget", "move %d (%s): %d of %d nodes of %s are down, %d allowed", m.id, m.Cause, down, nodes, p.Name, allowed)
		}
	}
}

// checkPodsMayGo: do-not-disrupt is honoured, unless the node's grace period overrides it.
func (w *Checker) checkPodsMayGo(m *move, n *node) {
	if n.doNotDisrupt {
		w.violation("do-not-disrupt", "move %d takes %s, which is annotated", m.id, n.key)
	}
	if !m.voluntary() && n.pool.TerminationGracePeriod > 0 {
		return
	}
	for _, p := range n.pods {
		switch {
		case p.terminating:
		case p.owner.DoNotDisrupt && (p.owner.ProtectFor == 0 || w.c.now.Sub(p.bound) < p.owner.ProtectFor):
			w.violation("do-not-disrupt", "move %d takes %s under %s", m.id, n.key, p.uid)
		case !p.owner.isJob() && p.owner.MaxUnavailable >= 0 && healthy(p.owner) <= p.owner.Replicas-p.owner.MaxUnavailable:
			w.violation("pdb", "move %d takes %s, where %s may not be evicted", m.id, n.key, p.uid)
		}
	}
}

func healthy(w *workload) int {
	n := 0
	for _, p := range w.pods {
		if p.ready && !p.terminating {
			n++
		}
	}
	return n
}

// replacementsOrdered: a move orders what its plan says.
func (w *Checker) replacementsOrdered(m *move) {
	if len(m.replacements) != len(m.Launches) {
		w.violation("replacement", "move %d ordered %d of %d replacements", m.id, len(m.replacements), len(m.Launches))
	}
}

// drainBegan: all replacements are ready before anything is drained, and cost less.
func (w *Checker) drainBegan(m *move) {
	var before, after offering.Price
	for _, n := range m.nodes {
		before += w.c.catalog.price(n.offering)
	}
	for _, r := range m.replacements {
		after += w.c.catalog.price(r.offering)
		if !r.ready() {
			w.violation("replacement", "move %d drains before %s is ready", m.id, r.key)
		}
	}
	if m.voluntary() && w.pricesWhenChosen[m] == w.priceChanges && after >= before {
		w.violation("cheaper", "move %d went from %s to %s", m.id, before, after)
	}
}

// podEvicted: pods are evicted by the rules of their disruption budget, and only when they may be.
func (w *Checker) podEvicted(p *pod, n *node, forced bool) {
	if forced {
		if n.deadline.IsZero() || w.c.now.Before(n.deadline.Add(-p.owner.Grace)) {
			w.violation("grace", "%s is forced out of %s too early", p.uid, n.key)
		}
		return
	}
	if o := p.owner; !o.isJob() && o.MaxUnavailable >= 0 && healthy(o) <= o.Replicas-o.MaxUnavailable {
		w.violation("pdb", "%s is evicted while %d of %d are healthy and %d may be down", p.uid, healthy(o), o.Replicas, o.MaxUnavailable)
	}
	if o := p.owner; o.DoNotDisrupt && (o.ProtectFor == 0 || w.c.now.Sub(p.bound) < o.ProtectFor) {
		w.violation("do-not-disrupt", "%s is evicted", p.uid)
	}
	if m := n.move; m != nil && slices.ContainsFunc(m.replacements, func(r *node) bool { return r.initialized.IsZero() }) {
		w.violation("replacement", "%s is evicted before the replacements are there", p.uid)
	}
}

// nodeLaunched: limits hold at every launch, counting the largest possible offering of nodes in
// flight.
func (w *Checker) nodeLaunched(m *node) {
	if m.pool.LimitCPU == 0 {
		return
	}
	var cores int64
	for _, n := range w.c.nodes.list {
		if n.pool != m.pool {
			continue
		}
		if n.offering.instanceType != "" {
			cores += w.c.catalog.sizeOf[n.offering.instanceType].cores
			continue
		}
		most := int64(0)
		for _, choice := range n.acceptable {
			most = max(most, w.c.catalog.sizeOf[choice.Type].cores)
		}
		cores += most
	}
	if cores > m.pool.LimitCPU {
		w.violation("limits", "%s has %d cores of %d", m.pool.Name, cores, m.pool.LimitCPU)
	}
}

// moveEnded: a move is over.
func (w *Checker) moveEnded(m *move) {
	if !m.voluntary() {
		// Time asked for it: the replacement may be more expensive or equal to the node before.
		w.outsideChanges++
		return
	}
	if m.stage == draining {
		w.savingMoves++
	}
}

// visit is the last time that a fleet was seen.
type visit struct{ outside, saved, undone int }

// checkCycle looks for cycles: whenever no move is under way and no pod waits, nodes of a kind are
// counted, wherever they are as long as they cost the same. After a move for money, the counts
// must equal none of the earlier ones, unless something changed from outside. It is called a
// relapse when kube-scheduler undid a move.
func (w *Checker) checkCycle() {
	if w.changesSeen == w.c.changes || !w.atRest() {
		return
	}
	w.changesSeen = w.c.changes
	w.Compared++
	kinds := make([]string, len(w.c.nodes.list))
	for i, n := range w.c.nodes.list {
		kinds[i] = fmt.Sprint(n.pool.Name, n.version, n.offering.instanceType, n.offering.capacityType, w.c.catalog.price(n.offering))
	}
	slices.Sort(kinds)
	key := strings.Join(kinds, "\n")
	was, seen := w.seenFleets[key]
	if seen && was.outside == w.outsideChanges && was.saved < w.savingMoves {
		rule := "cycle"
		if was.undone < w.c.Stats.Undone {
			rule = "relapse"
		}
		w.violation(rule, "the fleet is what it was %d moves before, and nothing changed from outside", w.savingMoves-was.saved)
	}
	w.seenFleets[key] = visit{w.outsideChanges, w.savingMoves, w.c.Stats.Undone}
}

// atRest reports whether every pod runs, no node is launched or deleted, and no move has passed
// its second look: what changes from outside between that and the drain changes nothing about
// the move, so a fleet seen in between is not the one that was judged.
func (w *Checker) atRest() bool {
	return !slices.ContainsFunc(w.c.disruption.moves, func(m *move) bool { return m.stage >= tainted && m.stage != over }) &&
		!slices.ContainsFunc(w.c.workloads.pods, func(p *pod) bool { return p.node == nil }) &&
		!slices.ContainsFunc(w.c.nodes.list, func(n *node) bool { return n.initialized.IsZero() || n.isDeleting() })
}

// outsideChange records that something changed from outside.
func (w *Checker) outsideChange() { w.outsideChanges++ }

// checkInstant is called at every instant.
func (w *Checker) checkInstant() {
	for _, n := range w.c.nodes.list {
		if n.initialized.IsZero() {
			continue
		}
		if milli, mib, pods := n.free(); milli < 0 || mib < 0 || pods < 0 {
			w.violation("room", "%s is overcommitted", n.key)
		}
		if n.phase == gone && len(n.pods) > 0 {
			w.violation("lost", "%s is gone with pods on it", n.key)
		}
	}
	w.checkCycle()
}

// checkReasons: every node that is kept has a reason.
func (w *Checker) checkReasons(p disrupt.Plan) {
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
	for _, n := range w.c.nodes.list {
		if n.move == nil && !n.isDeleting() && !n.initialized.IsZero() && !said[n.key] {
			w.violation("explained", "%s is kept without a reason", n.key)
		}
	}
}

// checkPlacements: every pod that a voluntary move disturbs has a node in it, and existing
// nodes have the capacity.
func (w *Checker) checkPlacements(m *move) {
	if !m.voluntary() {
		return
	}
	places := map[string]int{}
	for _, h := range m.Nominations {
		w.checkReceiver(m, h.Node, h.Pods, places)
	}
	for _, l := range m.Launches {
		for _, ref := range l.Pods {
			places[ref.UID]++
		}
	}
	for _, n := range m.nodes {
		for _, p := range n.pods {
			if !p.terminating && places[p.uid] != 1 {
				w.violation("placed", "move %d says %d times where %s goes", m.id, places[p.uid], p.uid)
			}
		}
	}
}

// checkReceiver: the node is none of those that the move deletes, and takes the pods in turn.
func (w *Checker) checkReceiver(m *move, key string, pods []cluster.PodRef, places map[string]int) {
	n := w.c.nodes.find(key)
	if n == nil || n.isDeleting() || n.move != nil || n.initialized.IsZero() {
		w.violation("receiver", "move %d sends pods to %s, which cannot take them", m.id, key)
		return
	}
	milli, mib, room := n.free()
	for _, ref := range pods {
		places[ref.UID]++
		p := w.c.workloads.find(ref.UID)
		if p == nil || p.node == nil || p.node.move != m {
			w.violation("placed", "move %d sends %s elsewhere, which runs on none of its nodes", m.id, ref.UID)
			continue
		}
		o := p.owner
		milli, mib, room = milli-o.Milli, mib-o.MiB, room-1
		if !o.Placement.admits(n.pool, n.offering.capacityType) || o.Placement.OnePerNode && n.runs(o) {
			w.violation("receiver", "move %d sends %s to %s, which does not take it", m.id, p.uid, key)
		}
	}
	if milli < 0 || mib < 0 || room < 0 {
		w.violation("receiver", "move %d sends more to %s than fits", m.id, key)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
