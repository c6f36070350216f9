// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// arrivals counts the pods that move to each node, by class.
type arrivals map[arrival]int

type arrival struct {
	class *cluster.PodClass
	node  *cluster.NodeInfo
}

// addPods adds a pod of each of these classes on the node.
func (a arrivals) addPods(classes []*cluster.PodClass, node *cluster.NodeInfo) {
	for _, c := range classes {
		a[arrival{c, node}]++
	}
}

func (a arrivals) add(others arrivals) {
	for which, n := range others {
		a[which] += n
	}
}

// dependencies are what pods of moves require of pods elsewhere (each a schedule.Dependency), so
// that kube-scheduler puts them where the plan has them. Moves are made at the same time: if a
// later move removed pods that such a dependency counts, or added some, it would break the
// earlier move (Rule CONSOLIDATION-6).
type dependencies struct {
	all     []dependency
	indexes map[schedule.Dependency]int // into all
}

// dependency is what is known of one schedule.Dependency.
type dependency struct {
	schedule.Dependency
	pods         int // the pods of moves that have it
	excessBefore int // by how much it was violated anyway
	changes      int // excessBefore is valid while no pod that it counts is added or removed
}

func newDependencies() *dependencies {
	return &dependencies{indexes: map[schedule.Dependency]int{}}
}

// dependenciesOf are the dependencies of the pods that moved, and how many pods have each.
func dependenciesOf(snapshot *cluster.Snapshot, arrived arrivals) map[schedule.Dependency]int {
	out := map[schedule.Dependency]int{}
	for a, n := range arrived {
		for _, d := range schedule.DependenciesOf(snapshot, a.class, a.node) {
			out[d] += n
		}
	}
	return out
}

// add records the dependencies of pods that moved; see dependenciesOf.
func (s *dependencies) add(more map[schedule.Dependency]int) {
	for d, pods := range more {
		i, known := s.indexes[d]
		if !known {
			i = len(s.all)
			s.indexes[d], s.all = i, append(s.all, dependency{Dependency: d})
		}
		pods += s.all[i].pods
		s.all[i] = dependency{d, pods, max(0, d.Violation(pods)), d.Changes()}
	}
}

// brokenBy says that the pods of this move, with those dependencies, break a dependency of pods that
// moved before.
func (s *dependencies) brokenBy(more map[schedule.Dependency]int) Kept {
	for i := range s.all {
		d := &s.all[i]
		changes := d.Changes()
		if d.changes == changes { // most moves change few of them
			continue
		}
		newcomers := more[d.Dependency]
		if d.brokenBy(newcomers) {
			return neededByOtherMove()
		}
		if newcomers == 0 {
			d.changes = changes
		}
	}
	for d, newcomers := range more {
		if i, known := s.indexes[d]; known && s.all[i].brokenBy(newcomers) {
			return neededByOtherMove()
		}
	}
	return Kept{}
}

// brokenBy reports whether the dependency is violated more than before once so many more pods have it.
func (d *dependency) brokenBy(newcomers int) bool {
	return d.Violation(d.pods+newcomers) > d.excessBefore
}

func neededByOtherMove() Kept {
	return Kept{Because: NeededByOtherMove, Detail: "Pods of other moves rely on where pods run now: the node is looked at again when those moves have ended"}
}
