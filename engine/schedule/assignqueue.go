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
	at           int           // place in all of the group yielded last
	due, waiting bitset.Set    // places of those still to be yielded in this pass, and in the next
	sleeping     map[int][]int // places of those that wait, by number of the domain count
	awaited      bitset.Set    // the keys of sleeping
}

func newAssignQueue(groups []*podGroup) *assignQueue {
	return &assignQueue{all: slices.Clone(groups), at: -1, due: bitset.Upto(len(groups)), sleeping: map[int][]int{}}
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

// await has the group yielded last wait for pods to join: for the next pass, or for as long as it is
// certain that there are none.
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
	q.awaited.Put(dc.number)
	q.sleeping[dc.number] = append(q.sleeping[dc.number], q.at)
}

// wake ends the wait of groups for domain counts that pods of g, which got places, count for.
func (q *assignQueue) wake(g *podGroup, t *topology) {
	for i := range g.domainIncrements {
		for number := range q.awaited.And(g.domainIncrements[i].counts).All() {
			if t.countList[number].total == 0 {
				continue
			}
			for _, at := range q.sleeping[number] {
				if at > q.at {
					q.due.Put(at)
				} else {
					q.waiting.Put(at)
				}
			}
			delete(q.sleeping, number)
			q.awaited.Drop(number)
		}
	}
}
