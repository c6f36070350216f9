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
func (b *Builder) Dump(w *Snapshot) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(b.nodes)) {
		h := b.nodes[key]
		fmt.Fprintln(&out, "host", key, h.Leaving, h.Unschedulable, h.Index, h.at, h.Free, mounts(h), h.place != nil, h.DaemonPorts)
	}
	for _, h := range slices.SortedFunc(slices.Values(w.Unschedulable), func(x, y *NodeInfo) int { return cmp.Compare(x.Key, y.Key) }) {
		fmt.Fprintln(&out, "stuck", h.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(b.classes)) {
		c := b.classes[key]
		var on []string
		for at, n := range c.on {
			on = append(on, fmt.Sprint(at.name, n))
		}
		slices.Sort(on)
		fmt.Fprintf(&out, "class %q %v %v %d\n", key, c.Pods, on, len(c.unplaced))
	}
	for _, c := range w.Classes {
		fmt.Fprintf(&out, "waits %q\n", c.key)
	}
	for _, name := range slices.Sorted(maps.Keys(b.indexes)) {
		b.indexes[name].dump(&out, name)
	}
	for _, m := range w.Catalogs {
		fmt.Fprintln(&out, "market", m.Pool.Name, m.Left, m.NodesLeft)
	}
	for k, n := range b.labelsInUse {
		if n <= 0 {
			fmt.Fprintln(&out, "nobody wears", k.Name)
		}
	}
	fmt.Fprintln(&out, len(b.labelsInUse), w.QuotaLeft)
	return out.String()
}

func mounts(h *NodeInfo) []string {
	var out []string
	for m := range h.Mounted {
		out = append(out, fmt.Sprint(m))
	}
	slices.Sort(out)
	return out
}

func (x *NodeIndex) dump(out *strings.Builder, name string) {
	fmt.Fprintf(out, "index %q shifted %d hosts %v\n", name, x.shifted, x.hosts)
	for _, g := range x.Groups {
		fmt.Fprintln(out, g.First.Key, g.From, g.To)
	}
	for _, level := range x.Free.levels {
		fmt.Fprintln(out, level)
	}
}

// Indexes lists the names of the existing indexes.
func (b *Builder) Indexes() []string { return slices.Sorted(maps.Keys(b.indexes)) }
