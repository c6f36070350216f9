// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// Tie is one requirement of pods which move to a node on pods elsewhere: that the pods they
// spread with are evenly distributed over zones, or that the pods they have affinity to are in
// the node's zone. It describes the current state of its what-if. Ties that are equal describe
// the same.
type Tie struct {
	pods  *cluster.PodCounts
	nodes *cluster.NodeCounts // nil unless it is a spread
	value int                 // of the label, on their node
	skew  int
	zones int // minDomains: with fewer zones the least count is zero
	own   bool
}

// Ties are those of pods of the class that a what-if placed on the node. Rules over hostnames
// and over labels that the node does not have yet are left out, as moves elsewhere do not
// change them.
func Ties(w *cluster.Snapshot, c *cluster.PodClass, node *cluster.NodeInfo) []Tie {
	var out []Tie
	seat := func(key *constraint.Key) (int, bool) {
		v, ok := node.Value(key)
		return v, ok && key.Name != cluster.LabelHostname
	}
	keys, names := hardSpreads(c)
	for i := range c.Spreads {
		e := &c.Spreads[i]
		v, ok := seat(e.Key)
		if e.Soft || !ok {
			continue
		}
		k := spreadKey(c, e, names)
		m := memoOf(w)
		t := &domainCount{key: k.key, of: k.of, filter: k.filter, keys: keys}
		out = append(out, Tie{pods: m.pods(k, t, w), nodes: m.nodes(t, w), value: v, skew: e.MaxSkew, zones: e.MinDomains})
	}
	for i := range c.Affinity {
		n := &c.Affinity[i]
		v, ok := seat(n.Key)
		if n.Weight > 0 || !ok {
			continue
		}
		k := domainCountKey{key: n.Key, of: countKey{selector: n.Pods, real: !c.Virtual}}
		out = append(out, Tie{pods: memoOf(w).pods(k, &domainCount{key: k.key, of: k.of}, w), value: v, own: n.Pods.Selects(c)})
	}
	return out
}

// Strain is by how many pods the tie is violated: the node's zone has that many too many, or
// misses one. Zero or less means that the tie holds. same is how many pods that are not bound
// yet have the same tie: a pod with affinity to its own kind cannot count on those, as they
// wait for it in turn.
func (t Tie) Strain(same int) int {
	have := t.pods.Counts[t.value]
	switch {
	case t.nodes != nil:
		return have - t.least() - t.skew
	case !t.own:
		return 1 - have
	case have == t.pods.Total: // none is elsewhere, so one of them may be the first
		return 0
	}
	return 1 - (have - same)
}

// Changes grows with every change that may alter the strain, in either direction.
func (t Tie) Changes() int {
	if t.nodes == nil {
		return t.pods.Changes
	}
	return t.pods.Changes + t.nodes.Changes
}

// least is the count of the emptiest zone; zero while there are too few zones.
func (t Tie) least() int {
	if len(t.nodes.Counts) < t.zones {
		return 0
	}
	least := t.pods.Counts[t.value]
	for v := range t.nodes.Counts {
		least = min(least, t.pods.Counts[v])
	}
	return least
}
