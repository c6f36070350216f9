// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// LabelsUsed lists, by name, the labels by which pods distinguish nodes: the labels in their
// node selectors and node affinity, and the topology keys of hard spread constraints and
// required affinity terms. The hostname is left out.
func (w *Snapshot) LabelsUsed() []*constraint.Key {
	asked := map[*constraint.Key]bool{}
	for _, c := range w.builder.classes {
		for _, k := range c.Keys {
			asked[k] = true
		}
		for i := range c.Spreads {
			asked[c.Spreads[i].Key] = asked[c.Spreads[i].Key] || !c.Spreads[i].Soft
		}
		for _, n := range slices.Concat(c.Affinity, c.AntiAffinity) {
			asked[n.Key] = asked[n.Key] || n.Weight == 0
		}
	}
	for _, r := range w.AntiAffinityTerms {
		asked[r.Key] = true
	}
	var out []*constraint.Key
	for k, so := range asked {
		if so && k.Name != LabelHostname {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y *constraint.Key) int { return cmp.Compare(x.Name, y.Name) })
	return out
}
