// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// learnAllColocations is the round from which on all groups with affinity over the hostname are
// colocated: where some are, others may lose the room that they had beside their leading pods.
const learnAllColocations = 3

// recordColocations records the classes of pods that were left out although the plan places pods
// that they must join on a node, together with the classes of those; false when that is known.
func (l *learned) recordColocations(s *solver, round int) bool {
	found := false
	var leading leadingGroups
	all := round >= learnAllColocations && len(l.colocated) > 0
	for _, g := range s.podGroups {
		if !g.follows() || g.placed == len(g.pods) && !all || g.class.Refused != "" || l.unplaceable[g.class] || l.isColocated(g.class) || l.withoutColocations {
			continue
		}
		if leading.byCounter == nil {
			leading = newLeadingGroups(s)
		}
		if groups := leading.of(g); len(groups) > 0 {
			if l.placedBefore == nil {
				l.placedBefore = s.placedByPriority()
			}
			l.addColocation(groups)
			found = true
		}
	}
	return found
}

// giveUpColocations drops the colocations when the plan with them places no more pods than the one
// before them; false when it does, or there are none.
func (l *learned) giveUpColocations(s *solver) bool {
	if len(l.colocated) == 0 || slices.Compare(s.placedByPriority(), l.placedBefore) > 0 {
		return false
	}
	l.colocated, l.withoutColocations = nil, true
	clear(l.colocationOf)
	return true
}

// placedByPriority counts the pods that have a place, highest priority first.
func (s *solver) placedByPriority() []int {
	var out []int
	placed := s.placedBy()
	for i, c := range s.snapshot.Classes {
		if i == 0 || comparePlacingOrder(c, s.snapshot.Classes[i-1]) != 0 {
			out = append(out, 0)
		}
		out[len(out)-1] += placed[c]
	}
	return out
}

// isColocated reports whether the class is in a colocation.
func (l *learned) isColocated(c *cluster.PodClass) bool {
	_, ok := l.colocationOf[c]
	return ok
}

// addColocation records that pods of the groups share nodes, and joins it with the colocations of
// the same classes.
func (l *learned) addColocation(groups []*podGroup) {
	n := len(l.colocated)
	l.colocated = append(l.colocated, nil)
	for _, g := range groups {
		had, known := l.colocationOf[g.class]
		classes := []*cluster.PodClass{g.class}
		if known && had != n {
			classes, l.colocated[had] = l.colocated[had], nil
		} else if known {
			continue
		}
		for _, c := range classes {
			l.colocationOf[c] = n
		}
		l.colocated[n] = append(l.colocated[n], classes...)
	}
}
