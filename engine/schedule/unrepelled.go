// SPDX-License-Identifier: Apache-2.0

package schedule

import "github.com/karve-dev/karve/engine/bitset"

// unrepelled are the independent allotments of a shape group as a set, without those that anti-affinity
// of the pods on the node keeps away. Where each tenant keeps off all others, one pod on the node keeps
// all of them away, and none has to be looked at.
type unrepelled struct {
	byOrder   []*allotment
	left      bitset.Set   // orders of those with pods left to place
	selected  []bitset.Set // by the ID of a selector, the orders of those that it selects
	remaining bitset.Set   // left without those that the pods on the node keep away
}

// minRepelled is by how many selectors the pods of one allotment may be kept away, on average, for the
// sets to be worth their memory.
const minRepelled = 32

// newUnrepelled returns nil where few selectors may keep the allotments away. terms are the IDs of the
// selectors of required anti-affinity over hostnames.
func newUnrepelled(independent []*allotment, terms bitset.Set) *unrepelled {
	var repelledBy bitset.Set
	pairs := 0
	for _, a := range independent {
		if rules := &a.group.nodeRules; rules.mayBeRepelled {
			rules.selectedBy.CopyTo(&repelledBy)
			repelledBy.Keep(terms)
			pairs += repelledBy.Len()
		}
	}
	if pairs == 0 || pairs < minRepelled*len(independent) {
		return nil
	}
	u := &unrepelled{byOrder: make([]*allotment, independent[len(independent)-1].order+1), selected: make([]bitset.Set, 64*len(terms))}
	for _, a := range independent {
		u.byOrder[a.order] = a
		u.left.Put(a.order)
		if rules := &a.group.nodeRules; rules.mayBeRepelled {
			rules.selectedBy.CopyTo(&repelledBy)
			repelledBy.Keep(terms)
			for selector := range repelledBy.All() {
				u.selected[selector].Put(a.order)
			}
		}
	}
	return u
}

// begin begins with the pods that are on the node.
func (u *unrepelled) begin(on *residents) {
	u.remaining.Copy(u.left)
	for selector := range on.repels.All() {
		u.remaining.DropAll(u.selected[selector])
	}
}

// add adds pods with the rules to those on the node.
func (u *unrepelled) add(rules *nodeRules) {
	for _, selector := range rules.repels {
		u.remaining.DropAll(u.selected[selector])
	}
}

// after returns the next of the allotments; nil when there is none.
func (u *unrepelled) after(order int) *allotment {
	if i := u.remaining.Next(order + 1); i >= 0 {
		return u.byOrder[i]
	}
	return nil
}

// dropPlaced drops allotments that have no pods left.
func (u *unrepelled) dropPlaced() {
	for i := range u.left.All() {
		if u.byOrder[i].left() == 0 {
			u.left.Drop(i)
		}
	}
}
