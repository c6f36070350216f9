// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// tryOtherCells makes further plans, in each of which the new nodes of one pod class go to another cell
// where rules allow it, and returns the best of all. A cell is otherwise chosen class by class, by what one
// node costs there, and nothing in a plan looks at what other pods would save if this class were elsewhere.
func (ps *preferenceSearch) tryOtherCells(s *solver, maxPrice offering.Price) *solver {
	budget := ps.options.budgets[Cells]
	if budget == 0 || ps.options.noLaunches || len(s.launches.all) == 0 || s.limits.overMaxPrice() || countPods(s.podGroups) < 2 {
		return s
	}
	steps := policySteps(countPods(s.podGroups), len(s.podGroups)) + len(s.snapshot.Nodes)/nodesPerStep
	best, unexamined := ratedPlan{}, 0
	for _, it := range cellsToTry(s.podGroups) {
		if budget -= steps; budget < 0 {
			unexamined++
			continue
		}
		if best.solver == nil {
			best = rate(s)
		}
		d := best.learned.directions
		d.towards = maps.Clone(d.towards)
		if d.towards == nil {
			d.towards = map[*cluster.PodClass]string{}
		}
		d.towards[it.class] = it.cell
		other := rate(ps.makePlan(d, nil, maxPrice))
		if other.betterThan(best) {
			best, other = other, best
		}
		best.searches.inherit(&other.searches, searchNames...)
	}
	if best.solver != nil {
		s = best.solver
	}
	s.searches.cut(Cells, unexamined)
	return s
}

// nodesPerStep is of how many nodes a plan counts the pods, by topology domain, in the time of a step.
const nodesPerStep = 16

// classInCell is a class and the name of a cell.
type classInCell struct {
	class *cluster.PodClass
	cell  string
}

// cellsToTry lists the cells in which nodes can be launched for classes whose pods need new nodes and may be
// in several cells, without those to which all of a class's new nodes go.
func cellsToTry(groups []*podGroup) []classInCell {
	var out []classInCell
	for _, g := range groups {
		wanted := 0
		for _, c := range g.cells {
			wanted += c.wanted
		}
		if wanted == 0 {
			continue
		}
		for _, c := range g.cells {
			if c.price >= 0 && c.maxPods != 0 && c.wanted < wanted {
				out = append(out, classInCell{g.class, c.name})
			}
		}
	}
	return out
}
