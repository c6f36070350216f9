package world

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// Variety is a label of which every launch of a market must leave at least so many
// values possible: the pool's minValues.
type Variety struct {
	Key *constraint.Key
	Min int

	values [][]int // by row; nil where the catalog does not carry the label
	fixed  []int   // then: the one value that every node of the pool gets, if any
}

// Values are those that a node bought by the row may have of the label; they must
// not be changed.
func (v *Variety) Values(row int) []int {
	if v.values == nil {
		return v.fixed
	}
	return v.values[row]
}

// Carried reports whether rows have the label of their own.
func (v *Variety) Carried() bool { return v.values != nil }

// varied compiles the minValues of rules. The largest counts where there are
// several for one label.
func (m *Market) varied(space *constraint.Space, rules Term) {
	for _, r := range rules {
		if r.MinValues <= 0 {
			continue
		}
		key := space.Key(r.Key)
		if i := slices.IndexFunc(m.Varied, func(v Variety) bool { return v.Key == key }); i >= 0 {
			m.Varied[i].Min = max(m.Varied[i].Min, r.MinValues)
			continue
		}
		v := Variety{Key: key, Min: r.MinValues}
		switch q, _ := m.Base.Get(key); {
		case m.Catalog.Carries(key):
			v.values = m.Catalog.Values(key)
		case !q.AdmitsAbsent():
			v.fixed = []int{0} // whatever it will be
		}
		m.Varied = append(m.Varied, v)
	}
}
