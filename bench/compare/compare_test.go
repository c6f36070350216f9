// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/worlds"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

var (
	count = flag.Uint64("worlds", 50, "how many random worlds to compare")
	first = flag.Uint64("seed", 1, "seed of the first one")
)

// boundAsMany are the worlds among the first 2,000 in which upstream has a place for more pods of some
// priority, and kube-scheduler binds no more of them as the nodes arrive, and why.
var boundAsMany = map[uint64]string{
	161:  "the pod must be the first of its kind, and others are bound before whose nodes are there sooner",
	290:  "MIN-VALUES-4: the pod has a spread, so it is in one domain, which has too few values",
	1106: "a terminating pod counts for anti-affinity until it has ended, and karve plans again then",
	1515: "the pod must be the first of its kind, and others are bound before whose nodes are there sooner",
}

// TestUpstreamPlacesNoMore: on random clusters of every scheduling feature karve leaves out no pod
// for which upstream has a place that kube-scheduler's filters accept and where it binds the pod as the
// nodes arrive.
func TestUpstreamPlacesNoMore(t *testing.T) {
	kinds := map[Kind]int{}
	for seed := *first; seed < *first+*count; seed++ {
		w := worlds.Shared(seed).WithWholePrices(seed)
		r := World(t.Context(), w)
		kinds[r.Kind()]++
		_, known := boundAsMany[seed]
		switch {
		case r.Kind() == LeavesMore, r.Kind() == BindsAsMany && !known:
			t.Errorf("seed %d: %s\n%s", seed, r, Smallest(t.Context(), w))
		case r.Kind() != BindsAsMany && known:
			t.Errorf("seed %d: %s, remove it from boundAsMany", seed, r.Kind())
		case r.Kind() == OursRefused, r.Kind() == NoPlan:
			t.Errorf("seed %d: %s", seed, r)
		}
	}
	t.Log(kinds)
	if *count >= 50 && kinds[LeavesFewer]+kinds[CostsLess]+kinds[CostsMore] == 0 {
		t.Error("both sides do the same in every world: the comparison is blind")
	}
}

// TestFoundWorlds: worlds that karve once lost stay won.
func TestFoundWorlds(t *testing.T) {
	for what, seeds := range found {
		for _, seed := range seeds {
			if r := World(t.Context(), worlds.Shared(seed)); r.Kind() == LeavesMore {
				t.Errorf("%s: seed %d: %s", what, seed, r)
			}
		}
	}
}

// found are the seeds of worlds in which karve once left more pods out, by what was wrong.
var found = map[string][]uint64{
	"a pod that fits anywhere takes the only place of another": {104, 184, 588, 647, 658},
	"the nodes that limits allow are too small":                {60, 1891},
	"a pod must join one of lower priority":                    {902, 1370},
	"minValues within a topology domain that no rule needs":    {277, 1315, 1586, 1882},
}

// TestPartOfAPlan: pods that the filters refuse count as left out, and so do the last launches
// beyond a NodePool's limits.
func TestPartOfAPlan(t *testing.T) {
	spoilt := 0
	for seed := uint64(1); seed < 40; seed++ {
		w := worlds.Shared(seed)
		plan := w.Plan()
		if len(plan.Launches) == 0 || len(w.Refused(plan)) > 0 {
			continue
		}
		extra := plan
		extra.Launches = append([]schedule.Launch{}, plan.Launches...)
		pool := w.NodePools[0].Name
		for _, u := range plan.Unplaced {
			extra.Launches = append(extra.Launches, schedule.Launch{Pool: pool, Pods: u.Pods, Offerings: plan.Launches[0].Offerings})
		}
		extra.Unplaced = nil
		r := Result{pods: w.NeedNodes()}
		whole, part := r.side(w, plan), r.side(w, extra)
		if len(part.Refused) == 0 {
			continue
		}
		spoilt++
		if no := w.Refused(part.Plan); len(no) > 0 {
			t.Errorf("seed %d: the filters refuse what is left of the plan: %v", seed, no)
		}
		if n := len(placedPods(part.Plan)); n > len(r.pods) || compareLeft(part.Left, whole.Left) > 0 {
			t.Errorf("seed %d: left out %v with pods that have no place, %v without them", seed, part.Left, whole.Left)
		}
	}
	if spoilt == 0 {
		t.Error("no plan was spoilt")
	}
}

// TestLeftOutByPriority: one pod of a higher priority weighs more than any number of lower ones.
func TestLeftOutByPriority(t *testing.T) {
	for _, c := range []struct {
		a, b []Left
		want int
	}{
		{nil, nil, 0},
		{[]Left{{10, 1}}, []Left{{0, 7}, {-5, 2}}, 1},
		{[]Left{{0, 2}}, []Left{{0, 1}, {-5, 9}}, 1},
		{[]Left{{10, 1}, {0, 1}}, []Left{{10, 1}, {0, 3}}, -1},
	} {
		if got := compareLeft(c.a, c.b); (got > 0) != (c.want > 0) || (got < 0) != (c.want < 0) {
			t.Errorf("left out %v beside %v: %d, want the sign of %d", c.a, c.b, got, c.want)
		}
	}
}

// TestKinds: the kind of a result says who does better.
func TestKinds(t *testing.T) {
	side := func(price offering.Price, left ...Left) Side {
		return Side{Price: price, Left: left, Plan: schedule.Plan{Unplaced: []schedule.Unplaced{{Pods: []cluster.PodRef{{UID: "p"}}}}}}
	}
	pending := func(s Side, left ...Left) Side {
		s.Pending = left
		return s
	}
	honours := func(s Side, cost offering.Price) Side {
		s.Plan.Preferences.Cost = cost
		return s
	}
	for want, r := range map[Kind]Result{
		LeavesMore:  {Ours: pending(side(1, Left{0, 2}), Left{0, 2}), Theirs: pending(side(5, Left{0, 1}), Left{0, 1})},
		BindsAsMany: {Ours: pending(side(1, Left{0, 2}), Left{0, 2}), Theirs: pending(side(5, Left{0, 1}), Left{0, 2})},
		LeavesFewer: {Ours: side(9, Left{0, 1}), Theirs: side(5, Left{10, 1})},
		CostsMore:   {Ours: side(6, Left{0, 1}), Theirs: side(5, Left{0, 1})},
		PaysForMore: {Ours: honours(side(6), 1), Theirs: side(5)},
		CostsLess:   {Ours: side(4), Theirs: side(5)},
		Equal:       {Ours: side(4), Theirs: side(4)},
		NoPlan:      {Err: fmt.Errorf("no")},
	} {
		if got := r.Kind(); got != want {
			t.Errorf("%v: %s, want %s", r, got, want)
		}
	}
}

// TestUpstreamSeesNodesInFlight: upstream puts pods on the nodes of NodeClaims, also of those that
// are not launched, and on nodes that no NodePool made.
func TestUpstreamSeesNodesInFlight(t *testing.T) {
	missing := map[string]bool{"a NodeClaim that is not launched": true, "a NodeClaim without a Node": true, "an unmanaged Node": true, "a new NodeClaim": true}
	for seed := uint64(1); seed < 300 && len(missing) > 0; seed++ {
		w := worlds.Shared(seed)
		plan, err := upstreamPlan(t.Context(), w)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(plan.Launches) > 0 {
			delete(missing, "a new NodeClaim")
		}
		for _, n := range plan.Nominations {
			for _, c := range w.NodeClaims {
				switch {
				case c.Name != n.Node:
				case c.Status.ProviderID == "":
					delete(missing, "a NodeClaim that is not launched")
				case !slices.ContainsFunc(w.Nodes, func(n *corev1.Node) bool { return n.Spec.ProviderID == c.Status.ProviderID }):
					delete(missing, "a NodeClaim without a Node")
				}
			}
			if slices.ContainsFunc(w.Nodes, func(o *corev1.Node) bool { return o.Name == n.Node }) {
				delete(missing, "an unmanaged Node")
			}
		}
	}
	for what := range missing {
		t.Errorf("upstream uses %s in no world", what)
	}
}
