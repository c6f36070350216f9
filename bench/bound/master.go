// SPDX-License-Identifier: Apache-2.0

package bound

import "github.com/karve-dev/karve/engine/schedule/simplex"

// master is the dual of the configuration linear program with some of its columns: prices of pods under
// which none of these is worth more than it costs, and under which all pods are worth most. Its
// variables are what all pods of a group are worth.
type master struct {
	program *simplex.Dictionary
	pods    []float64 // by group
}

// newMaster has the prices that the first columns allow. Each group must be in one of these.
func newMaster(groups []Group, first []column) *master {
	m := &master{}
	gain := make([]float64, len(groups))
	for i, g := range groups {
		m.pods = append(m.pods, float64(g.Pods))
		gain[i] = 1
	}
	var rows [][]float64
	var prices []float64
	for _, c := range first {
		rows, prices = append(rows, m.row(c)), append(prices, c.price)
	}
	m.program = simplex.New(gain, rows, prices)
	m.program.Maximize()
	return m
}

func (m *master) row(c column) []float64 {
	row := make([]float64, len(c.counts))
	for g, n := range c.counts {
		row[g] = float64(n) / m.pods[g]
	}
	return row
}

// add lowers prices under which a node of one of the columns is worth more than it costs.
func (m *master) add(columns []column) {
	for _, c := range columns {
		m.program.AddRow(m.row(c), c.price)
	}
	m.program.Restore()
}

// prices are the prices of one pod of each group.
func (m *master) prices() []float64 {
	out := m.program.X()
	for g, n := range m.pods {
		out[g] = max(0, out[g]) / n
	}
	return out
}
