// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// limitedPods counts pods that share a counter, and how many of them one node may have.
type limitedPods struct{ pods, perNode int }

// nodeDemand is what the pods left to place ask for together, and how that divides over nodes.
type nodeDemand struct {
	// minNodes is how many nodes the pods limited per node need at least, and perNode is what
	// one of them would hold if all pods were spread evenly.
	minNodes int
	perNode  quantity.Vector
	// total is what a node would hold with all of the pods. useful is the most of each
	// resource that is of use on a node for pods limited per node.
	total, useful quantity.Vector
	dims          []int // the resources that the pods ask for
	// pods is how many are left, and unplaced in how many shape groups, as of the last call of divide.
	// limitedPerNode are those of them of which a node may have a limited number, and mounting those with
	// volumes.
	pods, unplaced           int
	limitedPerNode, mounting []*shapeGroup
	// limited is scratch by counter: zero but for the counters in inUse.
	limited []limitedPods
	inUse   []int
}

// spreadsOverNodes reports whether the candidates' pods are spread over nodes because the number of some
// of them per node is limited.
func (d *nodeDemand) spreadsOverNodes(g *candidateGroup) bool {
	return d.minNodes > 1 && len(g.limitedPerNode) > 0
}

// begin begins with the shape groups.
func (d *nodeDemand) begin(all []*shapeGroup) {
	d.limitedPerNode, d.mounting = d.limitedPerNode[:0], d.mounting[:0]
	for _, sg := range all {
		if len(sg.limited) > 0 {
			d.limitedPerNode = append(d.limitedPerNode, sg)
		}
		if len(sg.shape.Mounts) > 0 {
			d.mounting = append(d.mounting, sg)
		}
	}
}

// divide computes how many nodes there must be and what each would hold. It returns the
// requests of all pods left to place, without volumes that several pods mount: how often such
// a volume is attached depends on how many nodes its pods are on. So these volumes are not
// divided by the number of nodes either; a node may need a slot for each of them.
func (d *nodeDemand) divide(left *shapesLeft) quantity.Vector {
	for _, list := range []*[]*shapeGroup{&d.limitedPerNode, &d.mounting} {
		*list = slices.DeleteFunc(*list, func(sg *shapeGroup) bool { return sg.left == 0 })
	}
	d.minNodes = d.countMinNodes()
	requests, largest, unplaced := left.sum()
	d.pods, d.unplaced = left.pods, unplaced
	slots := sharedVolumes(d.mounting)
	d.total = requests.Add(slots)
	d.perNode = d.total
	d.dims = d.dims[:0]
	for dim, n := range d.total {
		if n > 0 {
			d.dims = append(d.dims, dim)
		}
	}
	if d.minNodes > 1 {
		for dim := range d.perNode {
			d.perNode[dim] = max(largest[dim], requests[dim]/int64(d.minNodes)+largest[dim]/2) + slots[dim]
		}
	}
	return requests
}

// These say after how many launchCopies calls divide is called again. Looking at groupsPerCall shape groups
// takes about as long as one of these calls: where there are many groups, divide waits for more.
const (
	divideEvery   = 64
	groupsPerCall = 128
)

// isStale reports whether divide is to be called again, that many launchCopies calls after the last time.
// It is after divideEvery calls, or by policy.divideByShare once a third of the pods left then were placed.
func (d *nodeDemand) isStale(left *shapesLeft, calls int, p policy) bool {
	if calls < d.unplaced/groupsPerCall {
		return false
	}
	if p.divideByShare {
		return left.pods > 0 && 3*(d.pods-left.pods) >= d.pods
	}
	return calls >= divideEvery
}

// setUseful makes twice the even share the most that is of use on a node.
func (d *nodeDemand) setUseful() {
	d.useful = d.total
	if d.minNodes > 1 {
		for dim, n := range d.perNode {
			d.useful[dim] = min(d.useful[dim], 2*n)
		}
	}
}

// outgrown reports whether an even share is more than what was found to be of use on a node.
func (d *nodeDemand) outgrown() bool {
	for dim, n := range d.perNode {
		if n > d.useful[dim] && d.useful[dim] < d.total[dim] {
			return true
		}
	}
	return false
}

// countMinNodes is how many nodes the pods limited per node need: the number of those left that
// share a counter, divided by how many of them one node may have.
func (d *nodeDemand) countMinNodes() int {
	d.clearLimited()
	for _, sg := range d.limitedPerNode {
		for _, a := range sg.limited {
			n := a.left()
			for _, c := range a.group.nodeRules.maxCounts {
				if !c.countsOwnPods || n == 0 {
					continue
				}
				limited := &d.limited[c.counter]
				if limited.pods == 0 {
					d.inUse = append(d.inUse, c.counter)
				}
				if limited.pods == 0 || c.max < limited.perNode {
					limited.perNode = c.max
				}
				limited.pods += n
			}
		}
	}
	nodes := 0
	for _, c := range d.inUse {
		nodes = max(nodes, d.limited[c].minNodes())
	}
	return nodes
}

func (d *nodeDemand) clearLimited() {
	for _, c := range d.inUse {
		d.limited[c] = limitedPods{}
	}
	d.inUse = d.inUse[:0]
}

// minNodes is how many nodes the pods need at least.
func (l limitedPods) minNodes() int { return (l.pods + l.perNode - 1) / max(1, l.perNode) }

// sharedVolumes counts the slots that a node needs on which every volume is attached that pods
// left to place mount and other pods may mount too.
func sharedVolumes(shapeGroups []*shapeGroup) (slots quantity.Vector) {
	var seen map[cluster.Mount]bool
	for _, sg := range shapeGroups {
		for _, m := range sg.shape.Mounts {
			if seen == nil {
				seen = map[cluster.Mount]bool{}
			}
			if !seen[m] {
				seen[m] = true
				slots[m.Dim]++
			}
		}
	}
	return slots
}

// capRoom limits room to what one node would hold if all pods were spread evenly, when pods
// limited per node can go to the candidates.
func (d *nodeDemand) capRoom(g *candidateGroup, room *quantity.Vector) {
	most := &d.total
	if d.spreadsOverNodes(g) {
		most = &d.perNode
	}
	for dim := range room {
		room[dim] = min(room[dim], most[dim])
	}
}

// coversUseful reports whether a has at least the capacity of b, as far as it is of use to pods
// of the group.
func (d *nodeDemand) coversUseful(g *candidateGroup, a, b *quantity.Vector) bool {
	useful := &d.total
	if d.spreadsOverNodes(g) {
		useful = &d.useful
	}
	for _, dim := range d.dims {
		if a[dim] < min(b[dim], useful[dim]) {
			return false
		}
	}
	return true
}
