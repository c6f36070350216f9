// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
)

// learnAllColocations is the round from which on all groups with affinity over the hostname are
// colocated: where some are, others may lose the room that they had beside their leading pods.
const learnAllColocations = 3

// recordColocations records the classes of pods that were left out although the plan places pods
// that they must join on a node, together with the classes of those; false when that is known.
func (l *learned) recordColocations(s *solver, round int) bool {
	if l.withoutColocations {
		return false
	}
	found := false
	var leading leadingGroups
	all := round >= learnAllColocations && len(l.colocated) > 0
	for _, g := range s.podGroups {
		if !g.follows() || g.placed == len(g.pods) && !all || g.excluded() || l.unplaceable[g.class] || l.isColocated(g.class) {
			continue
		}
		if leading.byCounter == nil {
			leading = newLeadingGroups(s, false)
		}
		if groups := leading.of(g); len(groups) > 0 {
			l.addColocation(groups)
			found = true
		}
	}
	return found
}

// colocateAll records colocations of all pods that must join others on a node, before any is placed.
func (l *learned) colocateAll(s *solver) {
	leading := newLeadingGroups(s, true)
	for _, g := range s.podGroups {
		if g.follows() && !g.excluded() && !l.isColocated(g.class) {
			if groups := leading.of(g); len(groups) > 0 {
				l.addColocation(groups)
			}
		}
	}
}

// placesMoreThan reports whether the plan places more pods than the other one: of high priority first,
// and virtual pods last.
func (s *solver) placesMoreThan(o *solver) bool {
	placed, other := s.placedBy(), o.placedBy()
	more := 0
	for i, c := range s.snapshot.Classes {
		if i > 0 && more != 0 && comparePlacingOrder(c, s.snapshot.Classes[i-1]) != 0 {
			break
		}
		more += placed[c] - other[c]
	}
	return more > 0
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
