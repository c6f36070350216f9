package cluster

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// Asked lists the labels by which pods tell nodes apart, by name: those that they choose nodes by,
// and those that must be equal or different among neighbours. The hostname is not among them.
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
