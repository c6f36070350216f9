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
func (s *Snapshot) LabelsUsed() []*constraint.Key { return s.labelsUsed(false) }

// LabelsUsedOrPreferred is LabelsUsed with the topology keys of soft spread constraints and
// preferred affinity terms.
func (s *Snapshot) LabelsUsedOrPreferred() []*constraint.Key { return s.labelsUsed(true) }

func (s *Snapshot) labelsUsed(orPreferred bool) []*constraint.Key {
	used := map[*constraint.Key]bool{}
	for _, c := range s.podClasses.byKey {
		for _, k := range c.Keys {
			used[k] = true
		}
		for i := range c.Spreads {
			used[c.Spreads[i].Key] = used[c.Spreads[i].Key] || orPreferred || !c.Spreads[i].Soft
		}
		for _, terms := range [][]AffinityTerm{c.Affinity, c.AntiAffinity} {
			for i := range terms {
				used[terms[i].Key] = used[terms[i].Key] || orPreferred || terms[i].Weight == 0
			}
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
