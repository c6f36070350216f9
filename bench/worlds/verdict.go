// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Verdict is what is wrong with the decisions for a world.
type Verdict struct {
	Refused []judge.Rejection
	LeftOut []LeftOut
	// Order is how a plan after other events differs; empty when it does not.
	Order string
	// Excused counts the pods that each rule allows to leave out.
	Excused map[string]int
}

// OK reports whether nothing is wrong.
func (v Verdict) OK() bool { return len(v.Refused)+len(v.LeftOut) == 0 && v.Order == "" }

// Kind names the first failure in a way that survives shrinking; empty when nothing is wrong.
func (v Verdict) Kind() string {
	switch {
	case len(v.Refused) > 0:
		return "refused by " + v.Refused[0].Plugin
	case len(v.LeftOut) > 0 && v.LeftOut[0].Launch:
		return "left out: launch, " + v.LeftOut[0].Because
	case len(v.LeftOut) > 0:
		return "left out: node, " + v.LeftOut[0].Because
	case v.Order != "":
		return "order"
	}
	return ""
}

// String lists the failures, one a line.
func (v Verdict) String() string {
	var b strings.Builder
	for _, r := range v.Refused {
		fmt.Fprintf(&b, "refused: %s\n", r)
	}
	for _, l := range v.LeftOut {
		fmt.Fprintf(&b, "left out: %s\n", l)
	}
	if v.Order != "" {
		fmt.Fprintf(&b, "order of events:\n%s\n", v.Order)
	}
	return b.String()
}

// shuffles is how many other orders of events are tried.
const shuffles = 2

// Judge plans for the world and judges the plan.
func Judge(w *World, seed uint64) Verdict {
	plan := w.Plan()
	v := JudgePlan(w, plan, seed)
	want := Render(plan)
	r := rand.New(rand.NewPCG(seed, 0x0d3))
	for range shuffles {
		if got := Render(w.PlanShuffled(r)); got != want {
			v.Order = difference(want, got)
			break
		}
	}
	return v
}

// JudgePlan judges a plan for the world, with each launch as its first offering and as any other.
func JudgePlan(w *World, plan schedule.Plan, seed uint64) Verdict {
	v := Verdict{Excused: map[string]int{}}
	first := newJudged(w, plan, func(_ int, l schedule.Launch) offering.Ref { return l.Offerings[0] })
	v.Refused = append(first.errors, first.cluster.Rejections()...)
	if len(v.Refused) > 0 {
		return v
	}
	v.LeftOut = first.leftOut(v.Excused)
	r := rand.New(rand.NewPCG(seed, 0xa2))
	if len(plan.Launches) > 0 {
		other := newJudged(w, plan, func(_ int, l schedule.Launch) offering.Ref { return l.Offerings[r.IntN(len(l.Offerings))] })
		v.Refused = other.cluster.Rejections()
	}
	return v
}

// difference is the first lines in which two texts differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			other := ""
			if i < len(b) {
				other = b[i]
			}
			return "- " + a[i] + "\n+ " + other
		}
	}
	return "+ " + b[len(a)]
}
