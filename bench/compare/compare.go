// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/bench/worlds"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Side is a plan of one side, or what the filters accept of it.
type Side struct {
	Plan    schedule.Plan
	Refused []judge.Rejection // what the filters refuse of the whole plan
	Left    []Left            // pods without a place, highest priority first
	Price   offering.Price    // of the launches, each as its cheapest offering
	Pending []Left            // see worlds.World.Pending; only where karve's plan leaves more pods out
}

// Left counts the pods of one priority that have no place.
type Left struct {
	Priority int32
	Pods     int
}

// Result is karve's plan for a world beside upstream's.
type Result struct {
	Ours, Theirs Side
	// Err is why upstream has no plan.
	Err error

	pods map[types.UID]*corev1.Pod // that need nodes
}

// Kind says which side does better, and in what.
type Kind string

// The kinds, from ours being worse to ours being better. A refused plan of ours, or a failure of
// upstream's, is not compared.
const (
	LeavesMore  Kind = "karve leaves more pods out"
	BindsAsMany Kind = "karve leaves more pods out, and as many are bound"
	CostsMore   Kind = "karve's launches cost more"
	// PaysForMore is where they cost more only because of preferences, as the settings allow.
	PaysForMore Kind = "karve's launches cost more, for preferences"
	Equal       Kind = "equal"
	CostsLess   Kind = "karve's launches cost less"
	LeavesFewer Kind = "karve leaves fewer pods out"
	OursRefused Kind = "the filters refuse karve's plan"
	NoPlan      Kind = "upstream fails"
)

// tolerance is by what part of the price two plans may differ and count as equally dear.
const tolerance = 0.005

// runs is how often upstream plans for a world.
const runs = 3

// World plans for the world on both sides.
func World(ctx context.Context, w *worlds.World) Result {
	r := Result{pods: w.NeedNodes()}
	r.Ours = r.side(w, w.Plan())
	for i := range runs {
		plan, err := upstreamPlan(ctx, w)
		if err != nil {
			r.Err = err
			return r
		}
		r.complete(&plan)
		if next := r.side(w, plan); i == 0 || next.compare(r.Theirs) < 0 {
			r.Theirs = next
		}
	}
	if compareLeft(r.Ours.Left, r.Theirs.Left) > 0 {
		r.Ours.Pending, r.Theirs.Pending = r.pending(w, r.Ours.Plan), r.pending(w, r.Theirs.Plan)
	}
	return r
}

// pending counts the pods that stay pending after a plan.
func (r Result) pending(w *worlds.World, plan schedule.Plan) []Left {
	pending := w.Pending(plan)
	return r.countLeft(func(uid types.UID) bool { return pending[uid] })
}

// Kind says which side does better.
func (r Result) Kind() Kind {
	switch {
	case len(r.Ours.Refused) > 0:
		return OursRefused
	case r.Err != nil:
		return NoPlan
	}
	left, theirs := compareLeft(r.Ours.Left, r.Theirs.Left), r.Theirs.Price.USD()
	switch {
	case left > 0 && compareLeft(r.Ours.Pending, r.Theirs.Pending) <= 0:
		return BindsAsMany
	case left > 0:
		return LeavesMore
	case left < 0:
		return LeavesFewer
	case (r.Ours.Price - r.Ours.Plan.Preferences.Cost).USD() > theirs*(1+tolerance):
		return CostsMore
	case r.Ours.Price.USD() > theirs*(1+tolerance):
		return PaysForMore
	case r.Ours.Price.USD() < theirs*(1-tolerance):
		return CostsLess
	}
	return Equal
}

// PlaceAsMany reports whether both plans place as many pods of each priority: their prices and their
// numbers of nodes can be compared.
func (r Result) PlaceAsMany() bool {
	return r.Err == nil && len(r.Ours.Refused) == 0 && compareLeft(r.Ours.Left, r.Theirs.Left) == 0
}

// Why lists why karve leaves out pods that upstream places.
func (r Result) Why() string {
	theirs := map[string]bool{}
	for _, u := range r.Theirs.Plan.Unplaced {
		for _, p := range u.Pods {
			theirs[p.UID] = true
		}
	}
	why := map[string]bool{}
	for _, u := range r.Ours.Plan.Unplaced {
		if slices.ContainsFunc(u.Pods, func(p cluster.PodRef) bool { return !theirs[p.UID] }) {
			why[string(u.Because)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(why)), ", ")
}

// complete adds the pods that a plan of upstream's does not place.
func (r Result) complete(plan *schedule.Plan) {
	placed := map[string]bool{}
	for _, p := range placedPods(*plan) {
		placed[p.UID] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		if p := r.pods[uid]; !placed[string(uid)] {
			plan.Unplaced = append(plan.Unplaced, schedule.Unplaced{Pods: []cluster.PodRef{{Namespace: p.Namespace, Name: p.Name, UID: string(uid)}}})
		}
	}
}

func placedPods(plan schedule.Plan) []cluster.PodRef {
	var out []cluster.PodRef
	for _, n := range plan.Nominations {
		out = append(out, n.Pods...)
	}
	for _, l := range plan.Launches {
		out = append(out, l.Pods...)
	}
	return out
}

// side judges a plan.
func (r Result) side(w *worlds.World, plan schedule.Plan) Side {
	s := Side{Plan: plan, Refused: w.Refused(plan)}
	for no := s.Refused; len(no) > 0; no = w.Refused(s.Plan) {
		s.Plan = without(s.Plan, no)
	}
	left := map[types.UID]bool{}
	for _, u := range s.Plan.Unplaced {
		for _, p := range u.Pods {
			left[types.UID(p.UID)] = true
		}
	}
	s.Left = r.countLeft(func(uid types.UID) bool { return left[uid] })
	s.Price = s.Plan.Price()
	return s
}

// countLeft counts the pods that are left out by priority, the highest first.
func (r Result) countLeft(isLeft func(types.UID) bool) []Left {
	left := map[int32]int{}
	for uid, pod := range r.pods {
		if isLeft(uid) {
			left[corehelpers.PodPriority(pod)]++
		}
	}
	var out []Left
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(left))) {
		out = append(out, Left{p, left[p]})
	}
	return out
}

// without is the plan without the pods that are refused, and without the last launch of each
// NodePool that exceeds its limits.
func without(plan schedule.Plan, refused []judge.Rejection) schedule.Plan {
	var out schedule.Plan
	out.Unplaced = slices.Clone(plan.Unplaced)
	leaveOut := func(pods []cluster.PodRef) {
		out.Unplaced = append(out.Unplaced, schedule.Unplaced{Pods: pods})
	}
	keep := func(pods []cluster.PodRef) []cluster.PodRef {
		var kept []cluster.PodRef
		for _, p := range pods {
			if slices.ContainsFunc(refused, func(r judge.Rejection) bool { return r.Pod.UID == p.UID }) {
				leaveOut([]cluster.PodRef{p})
				continue
			}
			kept = append(kept, p)
		}
		return kept
	}
	for _, n := range plan.Nominations {
		if n.Pods = keep(n.Pods); len(n.Pods) > 0 {
			out.Nominations = append(out.Nominations, n)
		}
	}
	tooMany := map[string]bool{} // NodePools
	for _, r := range refused {
		tooMany[r.Node] = r.Pod.UID == ""
	}
	for _, l := range slices.Backward(plan.Launches) {
		if tooMany[l.Pool] {
			tooMany[l.Pool] = false
			leaveOut(l.Pods)
			continue
		}
		if l.Pods = keep(l.Pods); len(l.Pods) > 0 {
			out.Launches = slices.Insert(out.Launches, 0, l)
		}
	}
	return out
}

// compare is negative when a is better than b.
func (a Side) compare(b Side) int {
	return cmp.Or(compareLeft(a.Left, b.Left), cmp.Compare(a.Price, b.Price))
}

// compareLeft is negative when a leaves out fewer pods than b of the highest priority in which they
// differ.
func compareLeft(a, b []Left) int {
	counts := map[int32]int{}
	for _, l := range a {
		counts[l.Priority] += l.Pods
	}
	for _, l := range b {
		counts[l.Priority] -= l.Pods
	}
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		if counts[p] != 0 {
			return counts[p]
		}
	}
	return 0
}

// String is the result in a few lines.
func (r Result) String() string {
	if r.Err != nil {
		return fmt.Sprintf("%s: %v", NoPlan, r.Err)
	}
	return fmt.Sprintf("%s\nkarve:    %s\nupstream: %s", r.Kind(), r.Ours, r.Theirs)
}

// String is the side in one line.
func (a Side) String() string {
	text := fmt.Sprintf("%v/h, left out", a.Price)
	for _, l := range a.Left {
		text += fmt.Sprintf(" %d of priority %d,", l.Pods, l.Priority)
	}
	if len(a.Left) == 0 {
		text += " none,"
	}
	text = fmt.Sprintf("%s %d refused by the filters", text, len(a.Refused))
	for _, l := range a.Pending {
		text += fmt.Sprintf(", %d of priority %d stay pending", l.Pods, l.Priority)
	}
	return text
}
