// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"maps"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/reason"
)

// exclusiveClaims says which pending pods get no place because of claims that one pod at a time may
// use (ReadWriteOncePod): of the pods that share such a claim only one is placed, and none while
// another pod uses it. kube-scheduler (its plugin VolumeRestrictions) binds the pod that it tries
// first. So that pod goes first here, too. When it gets no place, it is passed over in the next
// round: kube-scheduler then binds the one that it tries next.
type exclusiveClaims struct {
	contenders []cluster.ClaimContender
	users      map[string]cluster.PodRef // pods that have a node, by claim
}

func newExclusiveClaims(snapshot *cluster.Snapshot) exclusiveClaims {
	contenders, users := snapshot.ClaimContenders()
	return exclusiveClaims{contenders: contenders, users: users}
}

// claimWait says for which claim pods wait. The zero claimWait is that of pods which are passed
// over.
type claimWait struct {
	claim   string
	user    cluster.PodRef
	running bool // the user has a node already
}

// claimTurn names the pods of a class that share a claim: they are passed over together, because
// where one of them finds no place, the others find none.
type claimTurn struct {
	class *cluster.PodClass
	claim string
}

// waits returns the pods that get no place, when some are passed over.
func (e exclusiveClaims) waits(passedOver map[claimTurn]bool) map[cluster.PodRef]claimWait {
	if len(e.contenders) == 0 {
		return nil
	}
	out, first := map[cluster.PodRef]claimWait{}, map[string]cluster.PodRef{}
	for _, c := range e.contenders {
		if c.Class.Refused != "" {
			continue
		}
		wait, waits := e.waitOf(c, passedOver, first)
		if waits {
			out[c.Pod] = wait
			continue
		}
		for _, claim := range c.Claims {
			first[claim] = c.Pod
		}
	}
	return out
}

// waitOf says what the contender waits for, when the pods in first use their claims before it;
// false when it is its turn.
func (e exclusiveClaims) waitOf(c cluster.ClaimContender, passedOver map[claimTurn]bool, first map[string]cluster.PodRef) (claimWait, bool) {
	for _, claim := range c.Claims {
		if user, ok := e.users[claim]; ok {
			return claimWait{claim, user, true}, true
		}
	}
	for _, claim := range c.Claims {
		if passedOver[claimTurn{c.Class, claim}] {
			return claimWait{}, true
		}
	}
	for _, claim := range c.Claims {
		if user, ok := first[claim]; ok {
			return claimWait{claim, user, false}, true
		}
	}
	return claimWait{}, false
}

// splitByWait splits the pods by what they wait for: first those that do not wait.
func splitByWait(pods []cluster.PodRef, waits map[cluster.PodRef]claimWait) (now []cluster.PodRef, later [][]cluster.PodRef) {
	if len(waits) == 0 {
		return pods, nil
	}
	index := map[claimWait]int{}
	for _, p := range pods {
		w, ok := waits[p]
		if !ok {
			now = append(now, p)
			continue
		}
		i, known := index[w]
		if !known {
			i = len(later)
			index[w], later = i, append(later, nil)
		}
		later[i] = append(later[i], p)
	}
	return now, later
}

// podGroupsOf makes a pod group of the class's pods, and groups of those that get no place because
// of their claims.
func podGroupsOf(c *cluster.PodClass, held heldPreferences, waits map[cluster.PodRef]claimWait) []*podGroup {
	var out []*podGroup
	now, later := splitByWait(c.PodsToPlace, waits)
	if len(now) > 0 || len(later) == 0 {
		out = append(out, newPodGroup(c, now, held))
	}
	for _, pods := range later {
		g := newPodGroup(c, pods, held)
		wait := waits[pods[0]]
		g.waits = &wait
		out = append(out, g)
	}
	return out
}

// passOver records the pods whose turn it was and that got no place, where pods of another class
// wait for them. It reports false when there are none.
func (l *learned) passOver(s *solver) bool {
	if len(s.preferences.claims.contenders) == 0 {
		return false
	}
	leftOut := map[cluster.PodRef]*cluster.PodClass{}
	for _, g := range s.podGroups {
		if !g.excluded() {
			for _, p := range g.pods[g.placed:] {
				leftOut[p] = g.class
			}
		}
	}
	turns, waiting := map[claimTurn]bool{}, 0
	for _, g := range s.podGroups {
		if g.waits == nil || g.waits.running {
			continue
		}
		if first := leftOut[g.waits.user]; first != nil && first != g.class {
			turns[claimTurn{first, g.waits.claim}] = true
			waiting += len(g.pods)
		}
	}
	if len(turns) == 0 {
		return false
	}
	if l.turns++; l.turns > s.searches.budgets[ClaimTurns] {
		s.searches.cut(ClaimTurns, waiting)
		return false
	}
	maps.Copy(l.passedOver, turns)
	return true
}

// explain says for which pod and claim the pods wait.
func (w claimWait) explain() (reason.Reason, string, reason.Facts) {
	user := w.user.Namespace + "/" + w.user.Name
	what := "goes to"
	if w.running {
		what = "is used by"
	}
	return reason.Volumes, fmt.Sprintf("PersistentVolumeClaim %s (ReadWriteOncePod) %s pod %s: one pod at a time may use it", w.claim, what, user),
		reason.FactsOf(map[string]any{"field": "volumes", "claim": w.claim, "pod": user})
}
