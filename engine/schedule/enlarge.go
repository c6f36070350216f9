// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
)

// enlarge places pods of the allotments for which no node may be launched any more on planned
// launches that become larger: limits, quota or addresses may allow few nodes and yet larger ones.
// Where the settings allow it, pods for which that is not enough get launches with fewer values than
// minValues ask for.
func (im *improver) enlarge(allotments []*allotment) {
	im.enlargeEach(allotments)
	if im.minValues.relaxing = im.minValues.mayRelax; im.minValues.relaxing {
		im.enlargeEach(allotments)
		im.minValues.relaxing = false
	}
}

// mayBecome are the offerings that launches of each pool may become, as far as their pods' labels tell.
func (im *improver) mayBecome() map[*poolState]bitset.Set {
	out := map[*poolState]bitset.Set{}
	seen := map[*nodeRequirements]bool{}
	for _, l := range im.launches.all {
		if !seen[l.requirements] {
			seen[l.requirements] = true
			out[l.pool] = out[l.pool].Or(im.offerings.choosable(l))
		}
	}
	return out
}

func (im *improver) enlargeEach(allotments []*allotment) {
	for _, a := range allotments {
		for _, l := range im.launches.all {
			if a.left() == 0 || im.outOfSteps() {
				break
			}
			if !im.minValues.relaxing || l.pool.hasMinValues() {
				im.enlargeFor(l, a)
			}
		}
	}
}

// enlargeFor makes the launch the offering that holds most of the allotment's pods beside its
// own; of several, the cheapest.
func (im *improver) enlargeFor(l *launch, a *allotment) {
	im.progress.steps++
	pool := l.pool
	if l.residents.keepOff(&a.group.nodeRules) {
		return
	}
	compatible := im.compatibility.compatible(pool, a)
	used := l.used.Add(a.group.shape.Requests)
	im.rows.Copy(im.offerings.choosable(l))
	im.rows.Keep(compatible.All)
	pool.DropNotFitting(im.rows, &used)
	if im.rows.Empty() {
		return
	}
	im.limits.release(l)
	larger, n := im.largest(l, a, im.rows)
	if n == 0 {
		im.limits.reserve(l)
		return
	}
	*l = *larger
	im.launches.forgetIndex()
	im.launches.addPods(l, a, n)
	im.minValues.reserveAgain(l)
}

// largest is the launch as the one of the offerings that takes most pods of the allotment, and how
// many these are.
func (im *improver) largest(l *launch, a *allotment, rows bitset.Set) (*launch, int) {
	var best *launch
	var reqs *nodeRequirements
	most, withValues := 0, 0
	for row := range rows.All() {
		if im.outOfSteps() || most == a.left() {
			break
		}
		if im.limits.nodesAllowed(l.pool, row) == 0 {
			continue
		}
		trial := *l
		trial.row, trial.free, trial.reservedCapacity = row, l.pool.Allocatable[row].Sub(l.used), nil
		n := min(a.left(), im.roomFor(&trial, a))
		if n <= most {
			continue
		}
		next, ok := im.requirements.join(l.requirements, l.pool, row, im.compatibility.compatible(l.pool, a), a)
		if !ok {
			continue
		}
		if next != reqs {
			reqs, withValues = next, trial.addableWithMinValues(im.minValues, next, a.group, a.left())
			if l.pool.hasMinValues() {
				im.progress.steps += rows.Len() // it looked at each
			}
		}
		if n = min(n, withValues); n > most {
			trial.requirements = next
			best, most = &trial, n
		}
	}
	return best, most
}

// returnUnneeded makes each launch the first offering that may be chosen for it, and so gives back what
// the one that was planned takes more of limits and quota. Launches with minValues stay what they are,
// and give back what they reserve for values that they lack. It returns what undoes this; nil when
// it changed nothing.
func (im *improver) returnUnneeded() (undo func()) {
	before := map[*launch]launch{}
	for _, l := range im.launches.all {
		if im.outOfSteps() {
			break
		}
		im.progress.steps++
		planned := *l
		if im.returnedByMinValues(l) || im.returnedByFirst(l) {
			before[l] = planned
		}
	}
	if len(before) == 0 {
		return nil
	}
	im.launches.forgetIndex()
	return func() {
		for l, planned := range before {
			im.limits.release(l)
			*l = planned
			im.limits.reserve(l)
		}
		im.launches.forgetIndex()
	}
}

// returnedByMinValues makes a launch of a pool with minValues reserve no more than the values need that
// its pods leave: where minValues may be relaxed, pods join launches that then list fewer values. It
// reports false when nothing changed.
func (im *improver) returnedByMinValues(l *launch) bool {
	pool, mc := l.pool, im.minValues
	if !mc.mayRelax || !pool.hasMinValues() || len(pool.Limited) == 0 {
		return false
	}
	canBecome := func(row int) bool { return mc.canBecome(l, row) }
	im.rows.Copy(im.offerings.choosable(l))
	pool.DropNotFitting(im.rows, &l.used)
	im.progress.steps += im.rows.Len() // it looks at each
	trial := *l
	trial.requiredValues = slices.Clone(mc.countValues(pool, l.requirements.set(), im.rows, l.requiredValues, canBecome).n)
	capacity, ok := mc.capacityToReserve(&trial, im.rows, canBecome)
	if !ok || capacity == *l.reservedCapacity {
		return false
	}
	im.limits.release(l)
	l.requiredValues, l.reservedCapacity = trial.requiredValues, &capacity
	im.limits.reserve(l)
	return true
}

// returnedByFirst makes the launch the first offering that it may become. It reports false when that
// is the planned one.
func (im *improver) returnedByFirst(l *launch) bool {
	row := im.firstOffering(l)
	if row == l.row {
		return false
	}
	im.limits.release(l)
	l.row, l.free = row, l.pool.Allocatable[row].Sub(l.used)
	im.limits.reserve(l)
	return true
}

// firstOffering is the first offering that the launch may become within limits and quota.
func (im *improver) firstOffering(l *launch) int {
	pool := l.pool
	if pool.hasMinValues() || len(pool.Limited)+len(pool.Catalog.Offerings[l.row].QuotaUses) == 0 {
		return l.row
	}
	im.limits.release(l)
	defer im.limits.reserve(l)
	im.rows.Copy(im.offerings.choosable(l))
	pool.DropNotFitting(im.rows, &l.used)
	for row := range im.rows.All() {
		if row >= l.row || im.limits.nodesAllowed(pool, row) > 0 {
			return min(row, l.row)
		}
	}
	return l.row
}
