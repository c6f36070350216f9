// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// whatIfMemo caches what all drafts of one what-if share, whatever is assumed.
type whatIfMemo struct {
	podCounts  map[domainCountKey]*cluster.PodCounts
	nodeCounts map[nodeCountKey]*cluster.NodeCounts
	views      map[nodeCountKey]*cluster.DomainView
	compatible map[compatibleKey]*cluster.Compatible // see fit
	soft       *[]*cluster.NodeInfo                  // see softlyTainted; nil until first needed
	available  map[*cluster.PoolCatalog]bitset.Set   // see onSale
	terms      *terms
}

// nodeCountKey names the nodes that a spread looks at, by the value of a label.
type nodeCountKey struct {
	key    *constraint.Key
	filter nodeFilter
}

// memoOf returns the memo of the what-if whose snapshot is w.
func memoOf(w *cluster.Snapshot) *whatIfMemo {
	at := w.Memo()
	m, ok := (*at).(*whatIfMemo)
	if !ok {
		m = &whatIfMemo{podCounts: map[domainCountKey]*cluster.PodCounts{}, nodeCounts: map[nodeCountKey]*cluster.NodeCounts{}, views: map[nodeCountKey]*cluster.DomainView{}, compatible: map[compatibleKey]*cluster.Compatible{}, available: map[*cluster.PoolCatalog]bitset.Set{}}
		*at = m
	}
	return m
}

// softlyTainted lists, in order, nodes among which are all with a PreferNoSchedule taint.
func softlyTainted(w *cluster.Snapshot) []*cluster.NodeInfo {
	if !w.InWhatIf() {
		return w.Nodes
	}
	m := memoOf(w)
	if m.soft == nil {
		var out []*cluster.NodeInfo
		for _, node := range w.Nodes {
			if slices.ContainsFunc(node.Taints, func(t cluster.Taint) bool { return t.Effect == cluster.PreferNoSchedule }) {
				out = append(out, node)
			}
		}
		m.soft = &out
	}
	return *m.soft
}

// onSale returns the pool's offerings that are available; nil outside what-ifs, where caching
// them does not pay.
func availableFromMemo(w *cluster.Snapshot, m *cluster.PoolCatalog) bitset.Set {
	if !w.InWhatIf() {
		return nil
	}
	known := memoOf(w).available
	if known[m] == nil {
		known[m] = (&poolState{PoolCatalog: m}).available()
	}
	return known[m]
}

// terms are the required anti-affinity terms of the snapshot's pods.
type terms struct {
	domains []*cluster.AntiAffinityTerm // over labels other than the hostname
	apart   bitset.Set                  // over hostnames: selectors of pods without the term
}

// termsOf sorts the terms; in a what-if it caches them.
func termsOf(w *cluster.Snapshot) *terms {
	if !w.InWhatIf() {
		return newTerms(w)
	}
	m := memoOf(w)
	if m.terms == nil {
		m.terms = newTerms(w)
	}
	return m.terms
}

func newTerms(w *cluster.Snapshot) *terms {
	t := &terms{}
	for _, r := range w.AntiAffinityTerms {
		switch {
		case r.Key.Name != cluster.LabelHostname:
			t.domains = append(t.domains, r)
		case slices.ContainsFunc(r.Pods.Classes(), func(c *cluster.PodClass) bool { return !r.OwnedBy(c) }):
			t.apart.Put(r.Pods.ID())
		}
	}
	return t
}

// recall takes the running pods of the domain count from the memo.
func (s *topology) recall(k domainCountKey, t *domainCount) {
	m := memoOf(s.w)
	c := m.pods(k, t, s.w)
	t.counts, t.total, t.domains = maps.Clone(c.Counts), c.Total, map[int]bool{}
	if len(t.keys) == 0 {
		return
	}
	for v := range m.nodes(t, s.w).Counts {
		t.domains[v] = true
	}
}

// pods returns the pod counts of the domain count. The what-if keeps them up to date from
// then on.
func (m *whatIfMemo) pods(k domainCountKey, t *domainCount, w *cluster.Snapshot) *cluster.PodCounts {
	c := m.podCounts[k]
	if c == nil {
		c = m.follow(t, w)
		m.podCounts[k] = c
	}
	return c
}

// nodes returns the node counts of the domain count. The what-if keeps them up to date from
// then on.
func (m *whatIfMemo) nodes(t *domainCount, w *cluster.Snapshot) *cluster.NodeCounts {
	at := nodeCountKey{t.key, t.filter}
	r := m.nodeCounts[at]
	if r == nil {
		r = m.followNodes(t, w)
		m.nodeCounts[at] = r
	}
	return r
}

// view returns the domain view of the domain count.
func (m *whatIfMemo) view(t *domainCount, w *cluster.Snapshot) *cluster.DomainView {
	at := nodeCountKey{t.key, t.filter}
	l := m.views[at]
	if l == nil {
		only := &domainCount{filter: t.filter, keys: t.keys}
		if labels, named := only.labels(); named {
			l = cluster.NewPerNodeDomainView(t.key, only.passes)
		} else {
			l = w.NewDomainView(t.key, labels, only.passes)
		}
		m.views[at] = l
	}
	return l
}

// labels are those that the domain count's filter reads. It reports true when the hostname is
// one of them.
func (t *domainCount) labels() (out []*constraint.Key, named bool) {
	out = slices.Clone(t.keys)
	if f := t.filter.affinity; f != nil {
		for _, alt := range f.OwnRequirements() {
			for _, q := range alt {
				out, named = append(out, q.Key), named || q.Key.Name == cluster.LabelHostname
			}
		}
	}
	return out, named
}

// follow makes pod counts for the domain count and tracks them.
func (m *whatIfMemo) follow(t *domainCount, w *cluster.Snapshot) *cluster.PodCounts {
	of := t.of
	c := &cluster.PodCounts{DomainView: m.view(t, w), Classes: of.classes(), Settled: of.settled, Counts: map[int]int{}}
	of.each(w, func(node *cluster.NodeInfo, n int) {
		if v, ok := c.Value(node); ok && n > 0 {
			c.Counts[v] += n
			c.Total += n
		}
	})
	w.TrackPods(c)
	return c
}

// followNodes makes node counts for the domain count and tracks them.
func (m *whatIfMemo) followNodes(t *domainCount, w *cluster.Snapshot) *cluster.NodeCounts {
	r := &cluster.NodeCounts{DomainView: m.view(t, w), Counts: map[int]int{}}
	note := func(node *cluster.NodeInfo) {
		if v, ok := r.Value(node); ok {
			r.Counts[v]++
		}
	}
	for _, node := range w.Nodes {
		if open(node) {
			note(node)
		}
	}
	for _, node := range w.Unschedulable {
		note(node)
	}
	w.TrackNodes(r)
	return r
}
