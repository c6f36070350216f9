// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// arrivals counts the pods that move to a node, by class.
type arrivals map[arrival]int

type arrival struct {
	class *cluster.PodClass
	node  *cluster.NodeInfo
}

// note counts pods of these classes.
func (a arrivals) note(classes []*cluster.PodClass, h *cluster.NodeInfo) {
	for _, c := range classes {
		a[arrival{c, h}]++
	}
}

func (a arrivals) add(others arrivals) {
	for which, n := range others {
		a[which] += n
	}
}

// ties are what pods of moves require of pods elsewhere, so that kube-scheduler puts them where
// the plan has them. Moves are made at the same time: if a later move removed pods that such a
// requirement counts, or added some, it would break the earlier move (Rule CONSOLIDATION-6).
type ties map[schedule.Tie]*tied

// tied is how many pods have the tie, and the strain that it had anyway. It is valid until a
// pod that the tie counts is added or removed.
type tied struct{ pods, borne, holds int }

// tiesOf are the ties of the pods that moved, and how many pods have each.
func tiesOf(w *cluster.Snapshot, came arrivals) map[schedule.Tie]int {
	out := map[schedule.Tie]int{}
	for a, n := range came {
		for _, t := range schedule.Ties(w, a.class, a.node) {
			out[t] += n
		}
	}
	return out
}

// add records the ties of the pods that moved.
func (s ties) add(w *cluster.Snapshot, came arrivals) {
	for t, pods := range tiesOf(w, came) {
		if had := s[t]; had != nil {
			pods += had.pods
		}
		s[t] = &tied{pods, max(0, t.Strain(pods)), t.Changes()}
	}
}

// broken says that the pods of this move break a tie of pods that moved before.
func (s ties) broken(w *cluster.Snapshot, came arrivals) Kept {
	if len(s) == 0 {
		return Kept{}
	}
	more := tiesOf(w, came)
	for t, is := range s {
		newcomers, changes := more[t], t.Changes()
		if newcomers == 0 && is.holds == changes {
			continue
		}
		if t.Strain(is.pods+newcomers) > is.borne {
			return Kept{Because: NeededByOtherMove, Detail: "Pods of other moves rely on where pods run now: the node is looked at again when those moves have ended"}
		}
		if newcomers == 0 {
			is.holds = changes
		}
	}
	return Kept{}
}
