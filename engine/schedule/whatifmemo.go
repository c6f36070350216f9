// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// whatIfMemo caches what all drafts of one what-if share, whatever is assumed.
type whatIfMemo struct {
	podCounts         map[domainCountKey]*cluster.PodCounts
	nodeCounts        map[nodeCountKey]*cluster.NodeCounts
	views             map[nodeCountKey]*cluster.DomainView
	compatible        map[compatibleKey]*cluster.CompatibleOfferings // see compatible
	soft              *[]*cluster.NodeInfo                           // see nodesToSearchForSoftTaints; nil until first needed
	available         map[*cluster.PoolCatalog]bitset.Set            // see available
	antiAffinityTerms *antiAffinityTerms
}

// nodeCountKey names the nodes that a spread looks at, by the value of a label.
type nodeCountKey struct {
	key    *constraint.Key
	filter nodeFilter
}

// memoOf returns the memo of the what-if of that snapshot.
func memoOf(snapshot *cluster.Snapshot) *whatIfMemo {
	at := snapshot.Memo()
	memo, ok := (*at).(*whatIfMemo)
	if !ok {
		memo = &whatIfMemo{
			podCounts: map[domainCountKey]*cluster.PodCounts{}, nodeCounts: map[nodeCountKey]*cluster.NodeCounts{}, views: map[nodeCountKey]*cluster.DomainView{},
			compatible: map[compatibleKey]*cluster.CompatibleOfferings{}, available: map[*cluster.PoolCatalog]bitset.Set{},
		}
		*at = memo
	}
	return memo
}

// nodesToSearchForSoftTaints lists, in order, nodes among which are all with a PreferNoSchedule
// taint.
func nodesToSearchForSoftTaints(snapshot *cluster.Snapshot) []*cluster.NodeInfo {
	if !snapshot.InWhatIf() {
		return snapshot.Nodes
	}
	memo := memoOf(snapshot)
	if memo.soft == nil {
		var out []*cluster.NodeInfo
		for _, node := range snapshot.Nodes {
			if slices.ContainsFunc(node.Taints, func(t cluster.Taint) bool { return t.Effect == cluster.PreferNoSchedule }) {
				out = append(out, node)
			}
		}
		memo.soft = &out
	}
	return *memo.soft
}

// availableFromMemo returns the pool's offerings that are available; nil outside what-ifs,
// where caching them does not pay.
func availableFromMemo(snapshot *cluster.Snapshot, m *cluster.PoolCatalog) bitset.Set {
	if !snapshot.InWhatIf() {
		return nil
	}
	known := memoOf(snapshot).available
	if known[m] == nil {
		known[m] = (&poolState{PoolCatalog: m}).available()
	}
	return known[m]
}

// antiAffinityTerms are the required anti-affinity terms of the snapshot's pods.
type antiAffinityTerms struct {
	overDomains []*cluster.AntiAffinityTerm // over labels other than the hostname
	// hostnameSelectors are the IDs of the selectors of terms over hostnames that select some pods
	// without the same term.
	hostnameSelectors bitset.Set
}

// antiAffinityTermsOf sorts the terms; in a what-if it caches them.
func antiAffinityTermsOf(snapshot *cluster.Snapshot) *antiAffinityTerms {
	if !snapshot.InWhatIf() {
		return newAntiAffinityTerms(snapshot)
	}
	memo := memoOf(snapshot)
	if memo.antiAffinityTerms == nil {
		memo.antiAffinityTerms = newAntiAffinityTerms(snapshot)
	}
	return memo.antiAffinityTerms
}

func newAntiAffinityTerms(snapshot *cluster.Snapshot) *antiAffinityTerms {
	t := &antiAffinityTerms{}
	for _, r := range snapshot.AntiAffinityTerms {
		switch {
		case r.Key.Name != cluster.LabelHostname:
			t.overDomains = append(t.overDomains, r)
		case r.Selector.SelectsAny(func(c *cluster.PodClass) bool { return !r.OwnedBy(c) }):
			t.hostnameSelectors.Put(r.Selector.ID())
		}
	}
	return t
}

// countFromMemo takes the running pods of the domain count from the memo.
func (t *topology) countFromMemo(k domainCountKey, dc *domainCount) {
	memo := memoOf(t.snapshot)
	c := memo.pods(k, dc, t.snapshot)
	dc.addAll(c.Counts)
	dc.domains = map[int]bool{}
	if len(dc.requiredKeys) == 0 {
		return
	}
	for v := range memo.nodes(dc, t.snapshot).Counts {
		dc.domains[v] = true
	}
}

// pods returns the pod counts of the domain count. The what-if keeps them up to date from
// then on.
func (memo *whatIfMemo) pods(k domainCountKey, dc *domainCount, snapshot *cluster.Snapshot) *cluster.PodCounts {
	c := memo.podCounts[k]
	if c == nil {
		c = memo.trackPods(dc, snapshot)
		memo.podCounts[k] = c
	}
	return c
}

// nodes returns the node counts of the domain count. The what-if keeps them up to date from
// then on.
func (memo *whatIfMemo) nodes(dc *domainCount, snapshot *cluster.Snapshot) *cluster.NodeCounts {
	at := nodeCountKey{dc.key, dc.filter}
	r := memo.nodeCounts[at]
	if r == nil {
		r = memo.trackNodes(dc, snapshot)
		memo.nodeCounts[at] = r
	}
	return r
}

// view returns the domain view of the domain count.
func (memo *whatIfMemo) view(dc *domainCount, snapshot *cluster.Snapshot) *cluster.DomainView {
	at := nodeCountKey{dc.key, dc.filter}
	l := memo.views[at]
	if l == nil {
		only := &domainCount{filter: dc.filter, requiredKeys: dc.requiredKeys}
		if labels, named := only.labels(); named {
			l = cluster.NewPerNodeDomainView(dc.key, only.passes)
		} else {
			l = snapshot.NewDomainView(dc.key, labels, only.passes)
		}
		memo.views[at] = l
	}
	return l
}

// labels are those that the domain count's filter reads. It reports true when the hostname is
// one of them.
func (dc *domainCount) labels() (out []*constraint.Key, named bool) {
	out = slices.Clone(dc.requiredKeys)
	if f := dc.filter.affinity; f != nil {
		for _, alt := range f.OwnRequirements() {
			for _, q := range alt {
				out, named = append(out, q.Key), named || q.Key.Name == cluster.LabelHostname
			}
		}
	}
	return out, named
}

// trackPods makes pod counts for the domain count and tracks them.
func (memo *whatIfMemo) trackPods(dc *domainCount, snapshot *cluster.Snapshot) *cluster.PodCounts {
	of := dc.of
	c := &cluster.PodCounts{DomainView: memo.view(dc, snapshot), Classes: of.classes(), WithoutTerminating: of.skipTerminating, Counts: map[int]int{}}
	of.each(snapshot, func(node *cluster.NodeInfo, n int) {
		if v, ok := c.Value(node); ok && n > 0 {
			c.Counts[v] += n
			c.Total += n
		}
	})
	snapshot.TrackPods(c)
	return c
}

// trackNodes makes node counts for the domain count and tracks them.
func (memo *whatIfMemo) trackNodes(dc *domainCount, snapshot *cluster.Snapshot) *cluster.NodeCounts {
	r := &cluster.NodeCounts{DomainView: memo.view(dc, snapshot), Counts: map[int]int{}}
	note := func(node *cluster.NodeInfo) {
		if v, ok := r.Value(node); ok {
			r.Counts[v]++
		}
	}
	for _, node := range snapshot.Nodes {
		if takesPods(node) {
			note(node)
		}
	}
	for _, node := range snapshot.NodesTakingNoPods {
		note(node)
	}
	snapshot.TrackNodes(r)
	return r
}
