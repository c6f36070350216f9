// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// countability says whether it is enough to count the pods of a candidate group's shape groups to know
// what fill would put on a node: nothing but capacity, and how many of the same pod group a node may
// have, keeps them off. Most pods are like that, and each launch is chosen among many candidates: their
// pods are counted, and only for the one that is chosen is it said which pods they are (fillAsPacked).
type countability struct {
	known, holds bool
	keys         []*constraint.Key // labels that the pods' requirements look at
}

// isCountable reports whether pack finds what fill would find for the candidate.
func (lr *launcher) isCountable(cand *candidate) bool {
	c := &cand.group.countability
	if !c.known {
		*c = cand.group.findCountability(lr.counters)
	}
	return c.holds && !cand.pool.hasMinValues() && !lr.topology.mustNotOpenDomains && cand.decides(c.keys)
}

// findCountability looks at the shape groups alone; isCountable also at the offering.
func (g *candidateGroup) findCountability(all *counters) countability {
	out := countability{known: true}
	keys := keySet{}
	limitedGroups := map[*podGroup]bool{}
	for _, sg := range g.shapeGroups {
		if len(sg.shape.Alternatives) != 1 {
			return out
		}
		sg.addKeys(keys)
		if sg.cell != nil {
			for _, q := range sg.cell.set { // with the part of a spread's domain that it is in
				keys[q.Key] = true
			}
		}
		for _, a := range sg.allotments {
			if !a.group.nodeRules.limitOnlyThemselves(all) || limitedGroups[a.group] {
				return out
			}
			if a.group.nodeRules.limitsOwnPods() {
				limitedGroups[a.group] = true
			}
		}
	}
	out.holds, out.keys = true, slices.Collect(maps.Keys(keys))
	return out
}

// limitOnlyThemselves reports whether no pods of other groups keep those with the rules off a node, nor
// the other way round as far as counters go.
func (rules *nodeRules) limitOnlyThemselves(all *counters) bool {
	return len(rules.needs)+len(rules.mounts)+len(rules.avoids) == 0 && !rules.mayBeRepelled &&
		!slices.ContainsFunc(rules.maxCounts, func(c counterLimit) bool { return !c.countsOwnPods || all.all[c.counter].groups != 1 })
}

// mostOnNode is how many pods with the rules a node may have that has none, by the limits that count them.
func (rules *nodeRules) mostOnNode() int {
	n := math.MaxInt32
	for _, c := range rules.maxCounts {
		if c.countsOwnPods {
			n = min(n, c.max)
		}
	}
	return n
}

// addKeys adds the labels that the only alternative of the pods' requirements looks at, and the topology
// keys of their cell.
func (sg *shapeGroup) addKeys(keys keySet) {
	for _, q := range sg.shape.Alternatives[0] {
		keys[q.Key] = true
	}
	if sg.cell != nil {
		keys.add(sg.cell.Keys)
	}
}

// decides reports whether the candidate's offering has one value of each of the labels, so that
// requirements that look at them do not exclude each other there.
func (c *candidate) decides(keys []*constraint.Key) bool {
	return !slices.ContainsFunc(keys, func(k *constraint.Key) bool {
		return !c.pool.Catalog.HasLabel(k) || c.pool.Catalog.Flexible(c.row, k)
	})
}

// packing is what pack counts on a node.
type packing struct {
	// leading is the index in launcher.shapeGroups before which all pods left of the candidate's shape
	// groups are on the node, as of so many of shapesLeft.placed. They are not in pods.
	leading, placed int
	pods            []packedPods
}

// packedPods is that n pods of a shape group were counted on a node, one of them because their number
// per node is limited.
type packedPods struct {
	shapeGroup *shapeGroup
	n          int
	limited    bool
}

func (p *packing) empty() bool { return p.leading == 0 && len(p.pods) == 0 }

func (p *packing) clear() { p.leading, p.pods = 0, p.pods[:0] }

// pack counts what fill would put on a node of the candidate, which is countable.
func (lr *launcher) pack(cand *candidate) {
	p := &cand.packing
	p.clear()
	p.placed = len(lr.shapesLeft.placed)
	room := cand.room
	limited := lr.demand.spreadsOverNodes(cand.group)
	if limited {
		lr.demand.capRoom(cand.group, &room)
	}
	capacity := room
	worthOfNode := 0.0
	if limited {
		for _, sg := range cand.group.limitedPerNode {
			if len(sg.limited) > 0 && p.put(sg, 1, &room) {
				p.pods[len(p.pods)-1].limited, worthOfNode = true, lr.prices.Node
			}
		}
	}
	if n, known := lr.countLeading(cand); known {
		p.leading, room = cand.group.leading.ends[n], room.Sub(cand.group.leading.sums[n])
	} else if !lr.launches.policy.largestFirst {
		for i, n := range lr.shares(cand) {
			p.put(lr.shapeGroups[i], n, &room)
		}
	}
	left, all := &lr.shapesLeft, len(lr.shapeGroups)
	for i := left.fitting(p.leading, all, cand.group.suits, &room); i >= 0; i = left.fitting(i+1, all, cand.group.suits, &room) {
		p.put(lr.shapeGroups[i], math.MaxInt32, &room)
	}
	for i := range p.pods {
		sg := p.pods[i].shapeGroup
		p.pods[i].n, sg.packed = sg.packed, 0
	}
	cand.filled, cand.content = true, cand.content[:0]
	cand.used, cand.requiredValues = capacity.Sub(room), nil
	cand.worth = worthOf(&cand.used, &lr.prices.Units) + worthOfNode
}

// fillAsPacked puts the pods that pack counted on the node.
func (lr *launcher) fillAsPacked(cand *candidate) {
	p, left := &cand.packing, &lr.shapesLeft
	lr.begin(cand)
	for i := left.withPods(0, p.leading, cand.group.suits, 1); i >= 0; i = left.withPods(i+1, p.leading, cand.group.suits, 1) {
		lr.put(cand, lr.shapeGroups[i], math.MaxInt32)
	}
	for _, o := range p.pods {
		lr.put(cand, o.shapeGroup, o.n-lr.filling.podsOf(o.shapeGroup))
	}
	lr.finish(cand)
}

// put counts up to n more pods of the shape group on the node, as many as there is room for, and takes that
// room. It reports whether there are any.
func (p *packing) put(sg *shapeGroup, n int, room *quantity.Vector) bool {
	if n = min(n, sg.mostOnNode-sg.packed); n > 0 {
		n = sg.allotments[0].group.fittingOf(n, room)
	}
	if n <= 0 {
		return false
	}
	if sg.packed == 0 {
		p.pods = append(p.pods, packedPods{shapeGroup: sg})
	}
	sg.packed += n
	for _, d := range sg.shape.Dims {
		room[d] -= int64(n) * sg.shape.Requests[d]
	}
	return true
}

// isCurrent reports whether all pods counted on the node are left to place, of the shape groups that suit
// it. It looks only at what was placed since it last reported that they are.
func (p *packing) isCurrent(suits bitset.Set, placed []placedPods) bool {
	if p.leading > 0 && slices.ContainsFunc(placed[p.placed:], func(o placedPods) bool {
		return o.shapeGroup.at < p.leading && suits.Has(o.shapeGroup.at)
	}) {
		return false
	}
	p.placed = len(placed)
	return !slices.ContainsFunc(p.pods, func(o packedPods) bool {
		return o.shapeGroup.mostOnNode < o.n || o.limited && len(o.shapeGroup.limited) == 0
	})
}
