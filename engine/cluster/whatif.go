// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// WhatIf supposes changes to a Snapshot, so that decisions can be computed on the result,
// and takes the changes back afterwards. Nothing is copied: nodes, classes and indexes are
// changed in place, and every change is recorded. So while a WhatIf lasts there must be no
// other one, the Snapshot must be read only through it, and its Builder must not change.
//
// The pods to be placed are only those of removed nodes (see RemoveNodes). Pods that were
// pending before are left out: another decision is about them.
type WhatIf struct {
	w      Snapshot
	undo   []func()
	guests map[*NodeInfo][]*pod // pods that Place put there

	rolls      []*NodeCounts
	watch      map[*PodClass][]*PodCounts // the counts in which pods of the class count
	remembered any
}

// Mark is a point in a WhatIf to which RollbackTo returns.
type Mark int

// WhatIf begins a WhatIf. It must be ended with End.
func (w *Snapshot) WhatIf() *WhatIf {
	t := &WhatIf{w: *w, guests: map[*NodeInfo][]*pod{}, watch: map[*PodClass][]*PodCounts{}}
	t.w.trial = t
	t.w.Classes, t.w.QuotaLeft, t.w.Unschedulable = nil, maps.Clone(w.QuotaLeft), slices.Clip(w.Unschedulable)
	return t
}

// Snapshot is the Snapshot as supposed so far. The pointer never changes, and the Snapshot is
// current after every change. It must not be used once the WhatIf has ended.
func (t *WhatIf) Snapshot() *Snapshot { return &t.w }

// Mark returns the current point of the WhatIf.
func (t *WhatIf) Mark() Mark { return Mark(len(t.undo)) }

// RollbackTo takes back everything supposed since the Mark.
func (t *WhatIf) RollbackTo(m Mark) {
	for len(t.undo) > int(m) {
		last := len(t.undo) - 1
		t.undo[last]()
		t.undo[last] = nil
		t.undo = t.undo[:last]
	}
}

// End takes everything back. The WhatIf must not be used any more.
func (t *WhatIf) End() { t.RollbackTo(0) }

func (t *WhatIf) later(undo func()) { t.undo = append(t.undo, undo) }

// RemoveNodes supposes that the nodes are removed: they take no pods, their pods count nowhere,
// and their movable pods are to be placed. Removing a node twice changes nothing.
//
// Their labels still count. While a node is drained, kube-scheduler still sees its zone, which
// has none of the pods, and binds pods with a spread constraint nowhere else. So a plan that
// ignored the zone would be undone at once, by the launch of nodes for these pods.
func (t *WhatIf) RemoveNodes(hosts ...*NodeInfo) {
	var all []content
	for _, h := range hosts {
		if h.vacated {
			continue
		}
		leaving := h.Leaving
		t.close(h, true)
		if leaving || !h.Unschedulable {
			t.stick(h)
		}
		all = append(all, t.content(h, leaving)...)
	}
	if len(all) > 0 {
		t.evict(all)
	}
}

// Cordon supposes that the node takes no more pods. Its pods and its labels still count.
func (t *WhatIf) Cordon(h *NodeInfo) {
	if h.Leaving || h.Unschedulable {
		return
	}
	t.close(h, false)
	t.stick(h)
}

// Uncordon supposes that cordoned nodes take pods again. It skips nodes that took no pods
// before the WhatIf, and nodes that are leaving.
func (t *WhatIf) Uncordon(hosts ...*NodeInfo) {
	open := make(map[*NodeInfo]bool, len(hosts))
	for _, h := range hosts {
		if h.at >= 0 && h.Index < 0 && !h.Leaving {
			open[h] = true
			t.become(h, standing{index: h.at})
		}
	}
	if len(open) == 0 {
		return
	}
	stuck := t.w.Unschedulable
	t.later(func() { t.w.Unschedulable = stuck })
	t.w.Unschedulable = slices.DeleteFunc(slices.Clone(stuck), func(h *NodeInfo) bool { return open[h] })
}

// standing is whether a node takes pods, and why not.
type standing struct {
	leaving, stuck, vacated bool
	index                   int
}

// close keeps pods off the node; with vacate the pods on it do not count any more either.
func (t *WhatIf) close(h *NodeInfo, vacate bool) {
	if vacate {
		t.become(h, standing{leaving: true, stuck: h.Unschedulable, vacated: true, index: -1})
		return
	}
	t.become(h, standing{leaving: h.Leaving, stuck: true, vacated: h.vacated, index: -1})
}

// become changes the standing of the node.
func (t *WhatIf) become(h *NodeInfo, next standing) {
	was := standing{h.Leaving, h.Unschedulable, h.vacated, h.Index}
	t.later(func() { t.stand(h, was) })
	t.stand(h, next)
}

func (t *WhatIf) stand(h *NodeInfo, as standing) {
	pods, labels := podsCount(h), labelsCount(h)
	h.Leaving, h.Unschedulable, h.vacated, h.Index = as.leaving, as.stuck, as.vacated, as.index
	if now := podsCount(h); now != pods {
		t.recountPods(h, h.PodsByClass(), sign(now))
	}
	if now := labelsCount(h); now != labels {
		t.recountLabels(h, sign(now))
	}
	t.w.reindex(h)
}

// sign is 1 for what counts from now on, and -1 for what does not count any more.
func sign(counts bool) int {
	if counts {
		return 1
	}
	return -1
}

// stick adds the node to the unschedulable nodes.
func (t *WhatIf) stick(h *NodeInfo) {
	n := len(t.w.Unschedulable)
	t.later(func() { t.w.Unschedulable = t.w.Unschedulable[:n] })
	t.w.Unschedulable = append(t.w.Unschedulable, h)
}

// AddNode supposes a node that is to be launched. It counts against its pool's limits and
// the quotas it uses. Its labels and the pods placed on it with Place count for spread
// constraints and affinity terms. Decisions place no other pods on it. Its key must be new.
func (t *WhatIf) AddNode(n Node) *NodeInfo {
	n.Unschedulable, n.Leaving = true, false
	h := &NodeInfo{Node: n, Index: -1, at: -1, Free: t.w.Resources.Offered(n.Allocatable)}
	h.readLabels(t.w.Space)
	t.stick(h)
	b := t.w.builder
	b.wear(h, 1)
	t.recountLabels(h, 1)
	t.later(func() {
		t.recountLabels(h, -1)
		b.wear(h, -1)
	})
	t.charge(&h.Node)
	return h
}

// charge subtracts the node from limits and quotas.
func (t *WhatIf) charge(n *Node) {
	for _, m := range t.w.Catalogs {
		if m.Pool.Name != n.Pool {
			continue
		}
		left, nodes := m.Left, m.NodesLeft
		t.later(func() { m.Left, m.NodesLeft = left, nodes })
		for _, d := range m.Limited {
			m.Left[d] -= n.Capacity[t.w.Resources.Name(d)]
		}
		if m.NodesLeft > 0 {
			m.NodesLeft--
		}
	}
	budgets := t.w.QuotaLeft
	t.later(func() { t.w.QuotaLeft = budgets })
	t.w.QuotaLeft = maps.Clone(budgets)
	for _, d := range n.QuotaUses {
		if _, ok := t.w.QuotaLeft[d.Quota]; ok {
			t.w.QuotaLeft[d.Quota] -= d.Amount
		}
	}
}

// Place supposes that the pods run on the node, which must not be leaving. It skips pods that
// are unknown or that already run on a node that is not leaving: in time this becomes true of
// all pods of a move. It returns the classes of the other pods, one for each pod.
func (t *WhatIf) Place(pods []PodRef, h *NodeInfo) []*PodClass {
	var come []*pod
	var classes []*PodClass
	for _, ref := range pods {
		if p := t.w.builder.pods[ref.UID]; p != nil && p.unplaced() {
			p.placed = true
			come, classes = append(come, p), append(classes, p.class)
		}
	}
	if len(come) == 0 {
		return nil
	}
	guests := t.guests[h]
	t.guests[h] = append(slices.Clip(guests), come...)
	t.later(func() {
		t.guests[h] = guests
		for _, p := range come {
			p.placed = false
		}
	})
	t.receive(h, come)
	t.count(come, h.place)
	t.forget(come)
	return classes
}

// unplaced reports whether the pod needs a node: it runs on none, or on one that is leaving.
func (p *pod) unplaced() bool {
	return !p.placed && (p.place == nil || p.place.host == nil || p.place.host.Leaving)
}

// receive subtracts the pods' requests and shared volumes from the node's free capacity, and
// adds the pods to its counts per class.
func (h *NodeInfo) receive(pods []*pod) {
	if h.place == nil {
		h.place = &place{name: h.Name, host: h}
	}
	h.podsThere = enlist(slices.Clone(h.PodsByClass()), pods)
	if slices.ContainsFunc(pods, func(p *pod) bool { return len(p.class.Mounts) > 0 }) {
		h.Mounted = maps.Clone(h.Mounted)
	}
	for _, p := range pods {
		h.Free = h.Free.Sub(p.class.Requests)
		h.mount(p.class.Mounts)
	}
}

// enlist adds the pods to the counts per class. They count as they will be once they are
// placed again: none is terminating.
func enlist(podsThere []ClassCount, pods []*pod) []ClassCount {
	for _, p := range pods {
		podsThere[addPod(&podsThere, p.class)].Pods++
	}
	return podsThere
}

// count adds the pods to the counts of their classes at a place. A terminating pod counts
// there as its replacement, so not as terminating.
func (t *WhatIf) count(pods []*pod, at *place) {
	was := make([]headcount, len(pods))
	for i, p := range pods {
		was[i] = p.class.on[at]
		p.class.on[at] = headcount{was[i].pods + 1, was[i].dying}
	}
	t.later(func() {
		for i, p := range slices.Backward(pods) {
			if p.class.on[at] = was[i]; was[i] == (headcount{}) {
				delete(p.class.on, at)
			}
		}
	})
}

// receive lets the pods run on the node: it updates free capacity, mounts, counts and
// indexes.
func (t *WhatIf) receive(h *NodeInfo, pods []*pod) {
	free, mounted, place, podsThere := h.Free, h.Mounted, h.place, h.podsThere
	come := enlist(nil, pods)
	t.later(func() {
		h.Free, h.Mounted, h.place, h.podsThere = free, mounted, place, podsThere
		t.recountPods(h, come, -1)
		t.w.reindex(h)
	})
	h.receive(pods)
	t.recountPods(h, come, 1)
	t.w.reindex(h)
}

// reindex brings the indexes up to date with the node.
func (w *Snapshot) reindex(h *NodeInfo) {
	if h.at < 0 {
		return
	}
	for _, x := range w.indexes {
		x.refresh(h)
	}
}

// content is pods of one class on one node, in the order in which they are placed.
type content struct {
	class *PodClass
	pods  []*pod
	refs  []PodRef
}

// content lists the pods that need a place when the node is removed. If the node was leaving
// already, some of its pods may have been placed elsewhere.
func (t *WhatIf) content(h *NodeInfo, leaving bool) []content {
	if len(t.guests[h]) == 0 && !leaving {
		return h.content()
	}
	var pods []*pod
	if h.place != nil {
		for _, p := range h.place.pods {
			if p.movable && !p.placed {
				pods = append(pods, p)
			}
		}
	}
	return contentOf(append(pods, t.guests[h]...))
}

// content lists the movable pods that are bound to the node. The list is kept until one of
// them changes.
func (h *NodeInfo) content() []content {
	if h.place == nil {
		return nil
	}
	if h.movable == nil {
		pods := make([]*pod, 0, len(h.place.pods))
		for _, p := range h.place.pods {
			if p.movable {
				pods = append(pods, p)
			}
		}
		h.movable = contentOf(pods)
	}
	return h.movable
}

// contentOf groups the pods by class, in order. It may keep the slice.
func contentOf(pods []*pod) []content {
	slices.SortFunc(pods, func(x, y *pod) int {
		if x.class != y.class {
			return compareClasses(x.class, y.class)
		}
		return byAge(x, y)
	})
	out := []content{}
	for len(pods) > 0 {
		n := 1
		for n < len(pods) && pods[n].class == pods[0].class {
			n++
		}
		out = append(out, inOrder(pods[0].class, pods[:n:n]))
		pods = pods[n:]
	}
	return out
}

func newContent(c *PodClass, pods []*pod) content {
	slices.SortFunc(pods, byAge)
	return inOrder(c, pods)
}

// inOrder makes the content of sorted pods. A pod placed elsewhere by Place may be listed by
// two nodes, so duplicates are dropped.
func inOrder(c *PodClass, pods []*pod) content {
	pods = slices.Compact(pods)
	refs := make([]PodRef, len(pods))
	for i, p := range pods {
		refs[i] = p.PodRef
	}
	return content{c, pods, refs}
}

// byAge orders old pods first.
func byAge(x, y *pod) int {
	return cmp.Or(cmp.Compare(x.created, y.created), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
}

// evict adds the pods to those that are to be placed.
func (t *WhatIf) evict(all []content) {
	all = joined(all)
	classes := slices.Clip(t.w.Classes)
	for _, k := range all {
		if len(k.class.unplaced) == 0 {
			classes = append(classes, k.class)
		}
	}
	slices.SortFunc(classes, compareClasses)
	was := make([]content, len(all))
	for i, k := range all {
		c := k.class
		was[i] = content{c, c.unplaced, c.Pods}
		if len(c.unplaced) > 0 {
			k = newContent(c, slices.Concat(c.unplaced, k.pods))
		}
		c.unplaced, c.Pods = k.pods, k.refs
	}
	t.setClasses(classes)
	t.later(func() {
		for _, k := range was {
			k.class.unplaced, k.class.Pods = k.pods, k.refs
		}
	})
	t.leaveAgain(all)
}

// joined merges the contents of each class into one.
func joined(all []content) []content {
	lots := make(map[*PodClass]int, len(all))
	for _, k := range all {
		lots[k.class]++
	}
	if len(lots) == len(all) {
		return all
	}
	out := make([]content, 0, len(lots))
	pods := map[*PodClass][]*pod{}
	for _, k := range all {
		if lots[k.class] == 1 {
			out = append(out, k)
			continue
		}
		pods[k.class] = append(pods[k.class], k.pods...)
	}
	for c, those := range pods {
		out = append(out, newContent(c, those))
	}
	return out
}

// leaveAgain marks pods that were placed before as without a node again.
func (t *WhatIf) leaveAgain(all []content) {
	for _, k := range all {
		for _, p := range k.pods {
			if p.placed {
				p.placed = false
				t.later(func() { p.placed = true })
			}
		}
	}
}

// forget removes pods that now run on a node from the pods to be placed.
func (t *WhatIf) forget(pods []*pod) {
	seen := map[*PodClass]bool{}
	var settled []*PodClass
	for _, p := range pods {
		c := p.class
		if seen[c] || len(c.unplaced) == 0 {
			continue
		}
		seen[c] = true
		rest := slices.DeleteFunc(slices.Clone(c.unplaced), func(p *pod) bool { return p.placed })
		t.setUnplaced(newContent(c, rest))
		if len(rest) == 0 {
			settled = append(settled, c)
		}
	}
	if len(settled) > 0 {
		t.setClasses(slices.DeleteFunc(slices.Clone(t.w.Classes), func(c *PodClass) bool { return slices.Contains(settled, c) }))
	}
}

// setUnplaced sets the pods of a class that are to be placed.
func (t *WhatIf) setUnplaced(k content) {
	c := k.class
	pods, refs := c.unplaced, c.Pods
	t.later(func() { c.unplaced, c.Pods = pods, refs })
	c.unplaced, c.Pods = k.pods, k.refs
}

func (t *WhatIf) setClasses(classes []*PodClass) {
	before := t.w.Classes
	t.later(func() { t.w.Classes = before })
	t.w.Classes = classes
}

// NodeByKey is the node with that key, even if it is leaving; nil when there is none.
func (w *Snapshot) NodeByKey(key string) *NodeInfo { return w.builder.nodes[key] }

// EachMovable visits the pods that need a place when the node is removed, class by class.
func (h *NodeInfo) EachMovable(f func(c *PodClass, pods []PodRef)) {
	for _, k := range h.content() {
		f(k.class, k.refs)
	}
}
