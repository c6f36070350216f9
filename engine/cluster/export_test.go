// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Dump writes everything that a WhatIf may change.
func (b *Builder) Dump(s *Snapshot) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(b.nodes.byKey)) {
		node := b.nodes.byKey[key]
		fmt.Fprintln(&out, "node", key, node.MarkedForDeletion, node.TakesNoPods, node.Index, node.listIndex, node.Free, mounts(node), node.bound != nil, node.DaemonPorts)
	}
	for _, node := range slices.SortedFunc(slices.Values(s.NodesTakingNoPods), func(x, y *NodeInfo) int { return cmp.Compare(x.Key, y.Key) }) {
		fmt.Fprintln(&out, "takes no pods:", node.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(b.classes.byKey)) {
		c := b.classes.byKey[key]
		var on []string
		for bound, n := range c.podsOn {
			on = append(on, fmt.Sprint(bound.nodeName, n))
		}
		slices.Sort(on)
		fmt.Fprintf(&out, "class %q %v %v %d\n", key, c.PodsToPlace, on, len(c.unplaced))
	}
	for _, c := range s.Classes {
		fmt.Fprintf(&out, "to be placed: %q\n", c.key)
	}
	for _, name := range b.Indexes() {
		b.nodes.indexes.byKeys[name].dump(&out, name)
	}
	for _, c := range s.PoolCatalogs {
		fmt.Fprintln(&out, "catalog", c.Pool.Name, c.Left, c.NodesLeft)
	}
	for k, n := range b.nodes.nodeLabelCounts {
		if n <= 0 {
			fmt.Fprintln(&out, "no node has", k.Name)
		}
	}
	fmt.Fprintln(&out, len(b.nodes.nodeLabelCounts), s.QuotaLeft)
	return out.String()
}

func mounts(node *NodeInfo) []string {
	var out []string
	for m := range node.Mounted {
		out = append(out, fmt.Sprint(m))
	}
	slices.Sort(out)
	return out
}

func (x *NodeIndex) dump(out *strings.Builder, name string) {
	fmt.Fprintf(out, "index %q: groups with another first node %d, nodes %v\n", name, x.groupsWithOtherFirst, x.positions)
	for _, g := range x.Groups {
		fmt.Fprintln(out, g.First.Key, g.From, g.To)
	}
	for _, level := range x.Free.levels {
		fmt.Fprintln(out, level)
	}
}

// LookedAt is how many pods were looked at because a selector was the first to use a label.
func (b *Builder) LookedAt() int { return b.pods.lookedAt }

// Indexes lists the names of the existing indexes.
func (b *Builder) Indexes() []string { return slices.Sorted(maps.Keys(b.nodes.indexes.byKeys)) }
