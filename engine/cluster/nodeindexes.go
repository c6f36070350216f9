// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
)

// nodeIndexes keeps the indexes that decisions asked for.
type nodeIndexes struct {
	byKeys    map[string]*NodeIndex // by the names of their label keys
	snapshots int                   // number of Snapshots handed out
}

// maxIdleSnapshots is the number of Snapshots after which an unused index is dropped: new pods
// may keep asking for other labels while the nodes do not change.
const maxIdleSnapshots = 64

// over returns the index over the keys, in any order; the hostname is left out. It makes the
// index, of these nodes and of vectors with dims resources, when there is none.
func (xs *nodeIndexes) over(nodes []*NodeInfo, keys []*constraint.Key, dims int) *NodeIndex {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k *constraint.Key) bool { return k.Name == LabelHostname })
	slices.SortFunc(keys, func(a, b *constraint.Key) int { return cmp.Compare(a.Name, b.Name) })
	keys = slices.Compact(keys)
	var name strings.Builder
	for _, k := range keys {
		name.WriteString(k.Name)
		name.WriteByte(0)
	}
	x := xs.byKeys[name.String()]
	if x == nil {
		x = newNodeIndex(nodes, keys, dims)
		xs.byKeys[name.String()] = x
	}
	x.lastUsed = xs.snapshots
	return x
}

// dropIdle counts one Snapshot more, and drops the indexes that have long not been used.
func (xs *nodeIndexes) dropIdle() {
	xs.snapshots++
	maps.DeleteFunc(xs.byKeys, func(_ string, x *NodeIndex) bool { return xs.snapshots-x.lastUsed > maxIdleSnapshots })
}

// refresh brings all indexes up to date with a listed node.
func (xs *nodeIndexes) refresh(node *NodeInfo) {
	for _, x := range xs.byKeys {
		x.refresh(node)
	}
}

// dropShape drops what the indexes remember for a shape.
func (xs *nodeIndexes) dropShape(s *PodShape) {
	for _, x := range xs.byKeys {
		x.dropShape(s)
	}
}

func (xs *nodeIndexes) clear() { clear(xs.byKeys) }
