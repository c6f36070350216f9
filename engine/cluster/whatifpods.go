// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
)

// Placement is pods that are to run on a node.
type Placement struct {
	Pods []PodRef
	Node *NodeInfo // must not be marked for deletion
}

// Place supposes that the pods run on the nodes. It skips pods that are unknown or that already run
// on a node that is not marked for deletion: in time this becomes true of all pods of a move. It
// returns the classes of the other pods by placement, one for each pod.
func (w *WhatIf) Place(placements ...Placement) [][]*PodClass {
	classes := make([][]*PodClass, len(placements))
	var all []*pod
	for i, to := range placements {
		first := len(all)
		for _, ref := range to.Pods {
			if p := w.snapshot.podStore.byUID[ref.UID]; p != nil && p.needsNode() {
				p.placed = true
				all, classes[i] = append(all, p), append(classes[i], p.class)
			}
		}
		if len(all) > first {
			w.placeOn(to.Node, all[first:len(all):len(all)])
		}
	}
	w.dropPlaced(all)
	return classes
}

// placeOn lets the pods, which are marked as placed, run on the node.
func (w *WhatIf) placeOn(node *NodeInfo, pods []*pod) {
	before := w.placed[node]
	w.placed[node] = append(slices.Clip(before), pods...)
	w.onRollback(func() {
		w.placed[node] = before
		for _, p := range pods {
			p.placed = false
		}
	})
	w.runOn(node, pods)
	w.countOn(node.bound, pods)
}

// needsNode reports whether the pod runs on no node, or on one that is marked for deletion.
func (p *pod) needsNode() bool {
	return !p.placed && (p.bound == nil || p.bound.node == nil || p.bound.node.MarkedForDeletion)
}

// runOn lets the pods run on the node: it updates free capacity, mounts, counts and indexes.
func (w *WhatIf) runOn(node *NodeInfo, pods []*pod) {
	free, mounted, bound, podsByClass := node.Free, node.Mounted, node.bound, node.podsByClass
	added := addAsPlaced(nil, pods)
	w.onRollback(func() {
		node.Free, node.Mounted, node.bound, node.podsByClass = free, mounted, bound, podsByClass
		w.tracked.addPods(node, added, -1)
		w.refreshIndexes(node)
	})
	node.addPods(pods)
	w.tracked.addPods(node, added, 1)
	w.refreshIndexes(node)
}

// addPods subtracts the pods' requests and shared volumes from the node's free capacity, and
// adds the pods to its counts per class.
func (node *NodeInfo) addPods(pods []*pod) {
	if node.bound == nil {
		node.bound = &nodePods{nodeName: node.Name, node: node}
	}
	node.podsByClass = addAsPlaced(slices.Clone(node.PodsByClass()), pods)
	if slices.ContainsFunc(pods, func(p *pod) bool { return len(p.class.Mounts) > 0 }) {
		node.Mounted = maps.Clone(node.Mounted)
	}
	for _, p := range pods {
		node.Free = node.Free.Sub(p.class.Requests)
		node.mount(p.class.Mounts)
	}
}

// addAsPlaced adds the pods to the counts per class. They count as they will be once they are
// placed again: none is terminating.
func addAsPlaced(counts []ClassCount, pods []*pod) []ClassCount {
	for _, p := range pods {
		i := indexOfClass(&counts, p.class)
		counts[i].Pods++
	}
	return counts
}

// countOn adds the pods to the counts of their classes on a node. A terminating pod counts
// there as its replacement, so not as terminating.
func (w *WhatIf) countOn(bound *nodePods, pods []*pod) {
	selectors := &w.snapshot.podClasses.selectors
	before := make([]podCount, len(pods))
	for i, p := range pods {
		before[i] = p.class.podsOn[bound]
		p.class.setPodsOn(bound, podCount{before[i].pods + 1, before[i].terminating})
		selectors.updateOnNodes(p.class)
	}
	w.onRollback(func() {
		for i, p := range slices.Backward(pods) {
			if p.class.podsOn[bound] = before[i]; before[i] == (podCount{}) {
				delete(p.class.podsOn, bound)
			}
			selectors.updateOnNodes(p.class)
		}
	})
}

// classPods is pods of one class, in the order in which they are placed.
type classPods struct {
	class *PodClass
	pods  []*pod
	refs  []PodRef
}

// podsToPlace lists the pods that need a node when the node is removed. If the node was
// marked for deletion already, some of its pods may have been placed elsewhere.
func (w *WhatIf) podsToPlace(node *NodeInfo, wasMarked bool) []classPods {
	if len(w.placed[node]) == 0 && !wasMarked {
		return node.reschedulablePods()
	}
	var pods []*pod
	if node.bound != nil {
		for _, p := range node.bound.pods {
			if p.reschedulable && !p.placed {
				pods = append(pods, p)
			}
		}
	}
	return groupByClass(append(pods, w.placed[node]...))
}

// EachReschedulable visits the pods that need a node when the node is removed, class by class.
func (node *NodeInfo) EachReschedulable(f func(c *PodClass, pods []PodRef)) {
	for _, k := range node.reschedulablePods() {
		f(k.class, k.refs)
	}
}

// reschedulablePods lists the reschedulable pods that are bound to the node. The list is kept
// until one of them changes.
func (node *NodeInfo) reschedulablePods() []classPods {
	if node.bound == nil {
		return nil
	}
	if node.reschedulable == nil {
		pods := make([]*pod, 0, len(node.bound.pods))
		for _, p := range node.bound.pods {
			if p.reschedulable {
				pods = append(pods, p)
			}
		}
		node.reschedulable = groupByClass(pods)
	}
	return node.reschedulable
}

// groupByClass groups the pods by class, in order. It may keep the slice.
func groupByClass(pods []*pod) []classPods {
	slices.SortFunc(pods, func(x, y *pod) int {
		if x.class != y.class {
			return compareClasses(x.class, y.class)
		}
		return compareAge(x, y)
	})
	out := []classPods{}
	for len(pods) > 0 {
		n := 1
		for n < len(pods) && pods[n].class == pods[0].class {
			n++
		}
		out = append(out, classPodsOfSorted(pods[0].class, pods[:n:n]))
		pods = pods[n:]
	}
	return out
}

func newClassPods(c *PodClass, pods []*pod) classPods {
	slices.SortFunc(pods, compareAge)
	return classPodsOfSorted(c, pods)
}

// classPodsOfSorted is newClassPods for pods that are sorted. A pod placed elsewhere by Place
// may be listed by two nodes, so duplicates are dropped.
func classPodsOfSorted(c *PodClass, pods []*pod) classPods {
	pods = slices.Compact(pods)
	refs := make([]PodRef, len(pods))
	for i, p := range pods {
		refs[i] = p.PodRef
	}
	return classPods{c, pods, refs}
}

// addUnplaced adds the pods to those that are to be placed.
func (w *WhatIf) addUnplaced(all []classPods) {
	all = mergeByClass(all)
	classes := slices.Clip(w.snapshot.Classes)
	for _, k := range all {
		if len(k.class.unplaced) == 0 {
			classes = append(classes, k.class)
		}
	}
	slices.SortFunc(classes, compareClasses)
	before := make([]classPods, len(all))
	for i, k := range all {
		c := k.class
		before[i] = classPods{c, c.unplaced, c.PodsToPlace}
		if len(c.unplaced) > 0 {
			k = newClassPods(c, slices.Concat(c.unplaced, k.pods))
		}
		c.unplaced, c.PodsToPlace = k.pods, k.refs
	}
	w.setClasses(classes)
	w.onRollback(func() {
		for _, k := range before {
			k.class.unplaced, k.class.PodsToPlace = k.pods, k.refs
		}
	})
	w.unmarkPlaced(all)
}

// mergeByClass merges the pods of each class into one entry.
func mergeByClass(all []classPods) []classPods {
	entries := make(map[*PodClass]int, len(all))
	for _, k := range all {
		entries[k.class]++
	}
	if len(entries) == len(all) {
		return all
	}
	out := make([]classPods, 0, len(entries))
	several := map[*PodClass][]*pod{}
	for _, k := range all {
		if entries[k.class] == 1 {
			out = append(out, k)
			continue
		}
		several[k.class] = append(several[k.class], k.pods...)
	}
	for c, pods := range several {
		out = append(out, newClassPods(c, pods))
	}
	return out
}

// unmarkPlaced marks pods that Place put on a node as without a node again.
func (w *WhatIf) unmarkPlaced(all []classPods) {
	for _, k := range all {
		for _, p := range k.pods {
			if p.placed {
				p.placed = false
				w.onRollback(func() { p.placed = true })
			}
		}
	}
}

// dropPlaced removes pods that now run on a node from the pods to be placed.
func (w *WhatIf) dropPlaced(pods []*pod) {
	seen := map[*PodClass]bool{}
	var done []*PodClass // classes with no pods left
	for _, p := range pods {
		c := p.class
		if seen[c] || len(c.unplaced) == 0 {
			continue
		}
		seen[c] = true
		rest := slices.DeleteFunc(slices.Clone(c.unplaced), func(p *pod) bool { return p.placed })
		w.setUnplaced(newClassPods(c, rest))
		if len(rest) == 0 {
			done = append(done, c)
		}
	}
	if len(done) > 0 {
		w.setClasses(slices.DeleteFunc(slices.Clone(w.snapshot.Classes), func(c *PodClass) bool { return slices.Contains(done, c) }))
	}
}

// setUnplaced sets the pods of a class that are to be placed.
func (w *WhatIf) setUnplaced(k classPods) {
	c := k.class
	pods, refs := c.unplaced, c.PodsToPlace
	w.onRollback(func() { c.unplaced, c.PodsToPlace = pods, refs })
	c.unplaced, c.PodsToPlace = k.pods, k.refs
}

func (w *WhatIf) setClasses(classes []*PodClass) {
	before := w.snapshot.Classes
	w.onRollback(func() { w.snapshot.Classes = before })
	w.snapshot.Classes = classes
}
