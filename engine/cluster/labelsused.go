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
func (s *Snapshot) LabelsUsed() []*constraint.Key {
	used := map[*constraint.Key]bool{}
	for _, c := range s.podClasses.byKey {
		for _, k := range c.Keys {
			used[k] = true
		}
		for i := range c.Spreads {
			used[c.Spreads[i].Key] = used[c.Spreads[i].Key] || !c.Spreads[i].Soft
		}
		for _, t := range slices.Concat(c.Affinity, c.AntiAffinity) {
			used[t.Key] = used[t.Key] || t.Weight == 0
		}
	}
	for _, t := range s.AntiAffinityTerms {
		used[t.Key] = true
	}
	var out []*constraint.Key
	for k, isUsed := range used {
		if isUsed && k.Name != LabelHostname {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y *constraint.Key) int { return cmp.Compare(x.Name, y.Name) })
	return out
}
