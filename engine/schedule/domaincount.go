// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"iter"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// domainCount counts pods by value of a node label other than the hostname: either the pods a
// PodSelector selects, or those that have an anti-affinity term.
type domainCount struct {
	number int // its place in topology.countList
	key    *constraint.Key
	of     countedPods
	filter nodeFilter
	// alone and aloneTotal are the pods that were counted one count at a time, by value and together;
	// see count and total for all of them.
	alone        numbersByID
	aloneTotal   int
	requiredKeys []*constraint.Key // a node must have all of them to count
	// domains are the values that existing nodes have, as far as filter lets them count, and those
	// that earlier rounds opened (see learned.openedDomains). Only those of spreads are known.
	domains map[int]bool
	// launched are the values of nodes that are certain to be launched.
	launched []int
	// readers is how many rules read this count, without those of dropped preferences. hard is
	// set when one of them must hold.
	readers int
	hard    bool
	// mayBeEmpty is set while a further domain may be empty; see topology.findMayBeEmpty.
	mayBeEmpty bool
	// open is set when it counts pods in each of several domains where they may be; see countInAll.
	open bool
	// family and place are set once the count is in a family; see countFamilies.sort.
	family *countFamily
	place  int
}

// count is how many pods count in the domain v.
func (dc *domainCount) count(v int) int {
	n := dc.alone.at(v)
	if dc.family != nil && len(dc.family.together) > 0 {
		n += dc.family.together[v].at(dc.place)
	}
	return n
}

// add adds n pods in the domain v.
func (dc *domainCount) add(v, n int) {
	dc.alone.add(v, n)
	dc.aloneTotal += n
}

// addAll adds pods by domain.
func (dc *domainCount) addAll(counts map[int]int) {
	for v, n := range counts {
		dc.add(v, n)
	}
}

// total is how many pods count in any domain.
func (dc *domainCount) total() int {
	if dc.family == nil {
		return dc.aloneTotal
	}
	return dc.aloneTotal + dc.family.togetherTotal.at(dc.place)
}

// countedValues yields the domains in which pods count, and may yield others.
func (dc *domainCount) countedValues() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, c := range dc.alone {
			if !yield(c.id) {
				return
			}
		}
		if dc.family == nil {
			return
		}
		for v, t := range dc.family.together {
			if _, listed := dc.alone.find(v); !listed && t.at(dc.place) != 0 && !yield(v) {
				return
			}
		}
	}
}

// nodeFilter says which nodes a spread constraint looks at.
type nodeFilter struct {
	affinity *cluster.PodShape // its own node affinity must hold; nil for all nodes
	taints   *cluster.PodShape // its tolerations must tolerate the node's taints; nil for all
	keys     string            // the pod's spread keys; the node must have all of them
}

type domainCountKey struct {
	key    *constraint.Key
	of     countedPods
	filter nodeFilter
}

// countPods counts the pods on nodes of the snapshot; counts is nil where there are none.
func (dc *domainCount) countPods(snapshot *cluster.Snapshot) (counts map[int]int, total int) {
	dc.of.each(snapshot, func(node *cluster.NodeInfo, n int) {
		if v, ok := node.Value(dc.key); ok && n > 0 && dc.passes(node) {
			if counts == nil {
				counts = map[int]int{}
			}
			counts[v] += n
			total += n
		}
	})
	return counts, total
}

// passes reports whether the filter looks at the node. Every node counts as having a
// hostname: it gets one when it registers.
func (dc *domainCount) passes(node *cluster.NodeInfo) bool {
	for _, key := range dc.requiredKeys {
		if _, ok := node.Value(key); !ok && key.Name != cluster.LabelHostname {
			return false
		}
	}
	return (dc.filter.affinity == nil || node.MatchesOwn(dc.filter.affinity)) && (dc.filter.taints == nil || node.Tolerated(dc.filter.taints))
}

// domainCount returns the shared count of that key. If it is new, running pods are counted.
func (t *topology) domainCount(k domainCountKey, keys []*constraint.Key) *domainCount {
	if dc := t.counts[k]; dc != nil {
		return dc
	}
	dc := t.countRunning(k, keys)
	dc.number = len(t.countList)
	t.counts[k] = dc
	t.countList = append(t.countList, dc)
	return dc
}

// countRunning makes a domain count of the pods that run already.
func (t *topology) countRunning(k domainCountKey, keys []*constraint.Key) *domainCount {
	dc := &domainCount{key: k.key, of: k.of, filter: k.filter, requiredKeys: keys}
	if t.snapshot.InWhatIf() {
		t.countFromMemo(k, dc)
	} else {
		counts, _ := dc.countPods(t.snapshot)
		dc.addAll(counts)
		dc.domains = dc.listDomains(t)
	}
	if len(keys) > 0 {
		for _, v := range t.learned[k] {
			dc.domains[v] = true
		}
	}
	return dc
}

// sameNodes reports whether both count on the same nodes, by the same label, for rules as hard.
func (dc *domainCount) sameNodes(o *domainCount) bool {
	return dc.key == o.key && dc.filter == o.filter && dc.hard == o.hard && slices.Equal(dc.requiredKeys, o.requiredKeys)
}

// listDomains lists the domains of the nodes that count.
func (dc *domainCount) listDomains(t *topology) map[int]bool {
	if len(dc.requiredKeys) == 0 {
		return nil
	}
	domains := map[int]bool{}
	for node := range t.sampleNodes(dc) {
		if v, ok := node.Value(dc.key); ok && dc.passes(node) {
			domains[v] = true
		}
	}
	return domains
}

// sampleNodes yields at least one node of each set of nodes that the count treats alike. It is
// not used in what-ifs, which recall counts from the memo.
func (t *topology) sampleNodes(dc *domainCount) iter.Seq[*cluster.NodeInfo] {
	keys := dc.requiredKeys
	if f := dc.filter.affinity; f != nil {
		keys = slices.Concat(keys, f.Keys)
	}
	if dc.filter.affinity != nil && dc.filter.affinity.UsesHostname {
		return slices.Values(slices.Concat(t.snapshot.Nodes, t.snapshot.NodesTakingNoPods))
	}
	return func(yield func(*cluster.NodeInfo) bool) {
		for _, g := range t.snapshot.NodeIndex(keys).Groups {
			if !yield(g.First) {
				return
			}
		}
		for _, node := range t.snapshot.NodesTakingNoPods {
			if !yield(node) {
				return
			}
		}
	}
}
