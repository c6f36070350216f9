package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// MinValues is a label of which every launch of a market must leave at least so many
// values possible: the pool's minValues.
type MinValues struct {
	Key *constraint.Key
	Min int

	values [][]int // by row; nil where the catalog does not carry the label
	fixed  []int   // then: the one value that every node of the pool gets, if any
}

// Values are those that a node bought by the row may have of the label; they must
// not be changed.
func (v *MinValues) Values(row int) []int {
	if v.values == nil {
		return v.fixed
	}
	return v.values[row]
}

// Carried reports whether rows have the label of their own.
func (v *MinValues) PerOffering() bool { return v.values != nil }

// varied compiles the minValues of rules. The largest counts where there are
// several for one label.
func (m *PoolCatalog) varied(space *constraint.Space, rules Term) {
	for _, r := range rules {
		if r.MinValues <= 0 {
			continue
		}
		key := space.Key(r.Key)
		if i := slices.IndexFunc(m.MinValues, func(v MinValues) bool { return v.Key == key }); i >= 0 {
			m.MinValues[i].Min = max(m.MinValues[i].Min, r.MinValues)
			continue
		}
		v := MinValues{Key: key, Min: r.MinValues}
		switch q, _ := m.Base.Get(key); {
		case m.Catalog.HasLabel(key):
			v.values = m.Catalog.Values(key)
		case !q.AdmitsAbsent():
			v.fixed = []int{0} // whatever it will be
		}
		m.MinValues = append(m.MinValues, v)
	}
}
