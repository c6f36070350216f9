// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// Dependency is what pods that move to a node require of pods on other nodes: that the pods
// they spread with are evenly distributed over zones, or that the pods they have affinity to are
// in the node's zone. It reads the current state of its what-if. Dependencies that are equal
// require the same.
type Dependency struct {
	pods       *cluster.PodCounts
	nodes      *cluster.NodeCounts // nil unless it is a spread
	value      int                 // of the label, on their node
	skew       int
	minDomains int // with fewer zones the least count is zero
	// selfSelecting is set for an affinity that selects the pods themselves.
	selfSelecting bool
}

// DependenciesOf lists those of pods of the class that a what-if placed on the node. Rules
// over hostnames and over labels that the node does not have yet are left out, as moves
// elsewhere do not change them.
func DependenciesOf(snapshot *cluster.Snapshot, c *cluster.PodClass, node *cluster.NodeInfo) []Dependency {
	var out []Dependency
	valueOn := func(key *constraint.Key) (int, bool) {
		v, ok := node.Value(key)
		return v, ok && key.Name != cluster.LabelHostname
	}
	keys, names := hardSpreads(c)
	for i := range c.Spreads {
		e := &c.Spreads[i]
		v, ok := valueOn(e.Key)
		if e.Soft || !ok {
			continue
		}
		k := spreadKey(c, e, names)
		memo := memoOf(snapshot)
		dc := &domainCount{key: k.key, of: k.of, filter: k.filter, requiredKeys: keys}
		out = append(out, Dependency{pods: memo.pods(k, dc, snapshot), nodes: memo.nodes(dc, snapshot), value: v, skew: e.MaxSkew, minDomains: e.MinDomains})
	}
	for i := range c.Affinity {
		n := &c.Affinity[i]
		v, ok := valueOn(n.Key)
		if n.Weight > 0 || !ok {
			continue
		}
		k := domainCountKey{key: n.Key, of: countedPods{selector: n.Selector, skipVirtual: !c.Virtual}}
		out = append(out, Dependency{pods: memoOf(snapshot).pods(k, &domainCount{key: k.key, of: k.of}, snapshot), value: v, selfSelecting: n.Selector.Selects(c)})
	}
	return out
}

// Violation is by how many pods the dependency is violated: the node's zone has that many too
// many, or lacks one. Zero or less means that it is met. same is how many pods that are not
// bound yet have the same dependency: a pod with affinity to its own kind cannot count on
// those, as they wait for it in turn.
func (d Dependency) Violation(same int) int {
	have := d.pods.Counts[d.value]
	switch {
	case d.nodes != nil:
		return have - d.least() - d.skew
	case !d.selfSelecting:
		return 1 - have
	case have == d.pods.Total: // none is elsewhere, so one of them may be the first
		return 0
	}
	return 1 - (have - same)
}

// Changes grows with every change that may alter the violation, in either direction.
func (d Dependency) Changes() int {
	if d.nodes == nil {
		return d.pods.Changes
	}
	return d.pods.Changes + d.nodes.Changes
}

// least is the count of the emptiest zone; zero while there are too few zones.
func (d Dependency) least() int {
	if len(d.nodes.Counts) < d.minDomains {
		return 0
	}
	least := d.pods.Counts[d.value]
	for v := range d.nodes.Counts {
		least = min(least, d.pods.Counts[v])
	}
	return least
}
