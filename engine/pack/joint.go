package pack

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

// joint is what the classes on one machine require together: their label
// requirements, and the rows on which every one of them fits.
type joint struct {
	set  constraint.Set
	rows bitset.Set
}

func newJoint(m *stall) joint { return joint{set: m.Base, rows: m.Rows} }

// add joins one more class on the given row. It takes the first of the class's
// alternatives that holds there together with the others.
func (j joint) add(m *stall, row int, f *world.Fit, k *work) (joint, bool) {
	for i, alt := range k.Alternatives {
		if !f.Rows[i].Has(row) {
			continue
		}
		if set, ok := m.Join(row, j.set, alt); ok {
			return joint{set: set, rows: j.rows.And(f.Rows[i])}, true
		}
	}
	return joint{}, false
}
