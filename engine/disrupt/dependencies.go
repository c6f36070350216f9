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
type dependencies map[schedule.Dependency]*dependency

// dependency is what is known of one schedule.Dependency.
type dependency struct {
	pods         int // the pods of moves that have it
	excessBefore int // by how much it was violated anyway
	changes      int // excessBefore is valid while no pod that it counts is added or removed
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
func (s dependencies) add(more map[schedule.Dependency]int) {
	for d, pods := range more {
		if had := s[d]; had != nil {
			pods += had.pods
		}
		s[d] = &dependency{pods: pods, excessBefore: max(0, d.Violation(pods)), changes: d.Changes()}
	}
}

// brokenBy says that the pods of this move, with those dependencies, break a dependency of pods that
// moved before.
func (s dependencies) brokenBy(more map[schedule.Dependency]int) Kept {
	for d, known := range s {
		newcomers, changes := more[d], d.Changes()
		if newcomers == 0 && known.changes == changes {
			continue
		}
		if d.Violation(known.pods+newcomers) > known.excessBefore {
			return Kept{Because: NeededByOtherMove, Detail: "Pods of other moves rely on where pods run now: the node is looked at again when those moves have ended"}
		}
		if newcomers == 0 {
			known.changes = changes
		}
	}
	return Kept{}
}
