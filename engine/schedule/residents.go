// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
)

// residents records, for the pods on a node, what anti-affinity to other kinds of pods needs.
// When every pod avoids all others there are as many terms as pods, so selectors are compared
// as sets of IDs. Virtual pods are placed last, so real pods meet none here.
type residents struct {
	selectedBy bitset.Set // IDs of the selectors that select some of them
	repels     bitset.Set // IDs of the selectors that some of them keep away
}

// keepOff reports whether anti-affinity keeps pods with the rules off the node.
func (r *residents) keepOff(rules *nodeRules) bool {
	return rules.mayBeRepelled && r.repels.Intersects(rules.selectedBy) || slices.ContainsFunc(rules.avoids, r.selectedBy.Has)
}

// add adds pods.
func (r *residents) add(rules *nodeRules) {
	r.selectedBy.Merge(rules.selectedBy)
	for _, g := range rules.repels {
		r.repels.Put(g)
	}
}

func (r *residents) clone() residents { return residents{r.selectedBy.Clone(), r.repels.Clone()} }

func (r *residents) clear() {
	clear(r.selectedBy)
	clear(r.repels)
}
