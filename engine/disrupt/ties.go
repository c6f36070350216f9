package disrupt

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// arrivals counts the pods of a class that come to a node.
type arrivals map[arrival]int

type arrival struct {
	class *cluster.PodClass
	host  *cluster.NodeInfo
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
// the plan has them. Moves are made side by side: if a later move removed pods that such a
// requirement counts, or added some, it would break the earlier move (Rule CONSOLIDATION-6).
type ties map[schedule.Tie]*tied

// tied is how many pods have the tie, and the strain that it had anyway. It holds as long as no
// pod that it counts comes or goes.
type tied struct{ pods, borne, holds int }

// tiesOf are the ties of the pods that came, and how many pods have each.
func (s *search) tiesOf(came arrivals) map[schedule.Tie]int {
	out := map[schedule.Tie]int{}
	for a, n := range came {
		for _, t := range schedule.Ties(s.whatIf.Snapshot(), a.class, a.host) {
			out[t] += n
		}
	}
	return out
}

// tie notes what the pods that came need.
func (s *search) tie(came arrivals) {
	for t, pods := range s.tiesOf(came) {
		if had := s.ties[t]; had != nil {
			pods += had.pods
		}
		s.ties[t] = &tied{pods, max(0, t.Strain(pods)), t.Changes()}
	}
}

// torn says that pods which came break a tie of pods that came before.
func (s *search) torn(came arrivals) Kept {
	if len(s.ties) == 0 {
		return Kept{}
	}
	more := s.tiesOf(came)
	for t, is := range s.ties {
		newcomers, changes := more[t], t.Changes()
		if newcomers == 0 && is.holds == changes {
			continue
		}
		if t.Strain(is.pods+newcomers) > is.borne {
			return Kept{Because: ReliedOn, Detail: "Pods of other moves may go where they are to only as long as pods stay where they are now: it is looked at again when those have moved"}
		}
		if newcomers == 0 {
			is.holds = changes
		}
	}
	return Kept{}
}
