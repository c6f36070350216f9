// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
)

// assignQueue yields pod groups in passes, each in the groups' order. The first pass yields all
// groups, a further one those that waited in the pass before. A group that waits for the first pods
// of a domain count is yielded again once there are any: in a chain of as many groups as pods, most
// groups wait most of the time, and to look at each in every pass would take the square of that.
type assignQueue struct {
	all          []*podGroup
	at           int        // place in all of the group yielded last
	due, waiting bitset.Set // places of those still to be yielded in this pass, and in the next
	// sleeping are the places of those that wait for pods that a domain count counts, by the number of the
	// count; awaited are the places of these counts in their families.
	sleeping [][]int
	awaited  map[*countFamily]bitset.Set
}

func newAssignQueue(groups []*podGroup) *assignQueue {
	return &assignQueue{all: slices.Clone(groups), at: -1, due: bitset.Upto(len(groups)), awaited: map[*countFamily]bitset.Set{}}
}

// next yields the next group of the pass; nil when the pass has ended.
func (q *assignQueue) next() *podGroup {
	q.at = q.due.Next(q.at + 1)
	if q.at < 0 {
		return nil
	}
	return q.all[q.at]
}

// add adds groups to the next pass.
func (q *assignQueue) add(groups []*podGroup) {
	for _, g := range groups {
		q.waiting.Put(len(q.all))
		q.all = append(q.all, g)
	}
}

// startPass starts a pass of the groups that wait and still have pods without a place.
func (q *assignQueue) startPass() {
	q.at, q.due, q.waiting = -1, q.waiting, q.due
	clear(q.waiting)
	for i := range q.due.All() {
		if q.all[i].unassigned() == 0 {
			q.due.Drop(i)
		}
	}
}

// await has the group yielded last wait for pods to join: for the next pass, or for as long as it
// is certain that there are none.
func (q *assignQueue) await(cs *counters) {
	g := q.all[q.at]
	if g.held.notEmpty() {
		q.waiting.Put(q.at)
		return
	}
	if g.lacksPodsOnNodes(cs) {
		return // no other group changes that
	}
	dc := g.lacksPodsInDomains()
	if dc == nil {
		q.waiting.Put(q.at)
		return
	}
	awaited := q.awaited[dc.family]
	awaited.Put(dc.place)
	q.awaited[dc.family] = awaited
	if more := dc.number + 1 - len(q.sleeping); more > 0 {
		q.sleeping = append(q.sleeping, make([][]int, more)...)
	}
	q.sleeping[dc.number] = append(q.sleeping[dc.number], q.at)
}

// wake ends the wait of groups for domain counts that pods of g, which got places, count for.
func (q *assignQueue) wake(g *podGroup) {
	for i := range g.domainIncrements {
		for _, in := range g.domainIncrements[i].counts {
			awaited := q.awaited[in.family]
			for place := range in.places.AllIn(awaited) {
				if dc := in.family.byPlace[place]; dc.total() > 0 {
					awaited.Drop(place)
					q.yield(q.sleeping[dc.number])
					q.sleeping[dc.number] = nil
				}
			}
		}
	}
}

// yield has the groups at the places yielded again: in this pass, those that come later in it.
func (q *assignQueue) yield(places []int) {
	for _, at := range places {
		if at > q.at {
			q.due.Put(at)
		} else {
			q.waiting.Put(at)
		}
	}
}
