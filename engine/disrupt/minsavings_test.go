// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/offering"
)

const cent = offering.Price(10_000_000)

// Rule CONSOLIDATION-16: replacements save a share of the cost of the removed nodes, and all
// moves save an amount for each pod.
func TestMinSavings(t *testing.T) {
	pool := func(t *MinSavings) *Pool { return &Pool{Name: "p", MinSavings: t} }
	plain := []Part{{Pool: pool(nil), Nodes: 1, Price: 100 * cent}}
	money := []Part{{Pool: pool(&MinSavings{Share: 0.01, PerHour: 2 * cent}), Price: 100 * cent}, {Pool: pool(nil), Price: 100 * cent}}
	perEviction := Settings{MinSavings: MinSavings{PerEviction: cent / 4}}
	for name, tc := range map[string]struct {
		parts    []Part
		after    offering.Price
		launches int
		s        Settings
		want     bool
	}{
		"enough":                                   {plain, 95 * cent, 1, Defaults(), true},
		"too little":                               {plain, 95*cent + 1, 1, Defaults(), false},
		"any saving":                               {plain, 100*cent - 1, 1, Settings{}, true},
		"no saving":                                {plain, 100 * cent, 1, Settings{}, false},
		"any saving for Karpenter":                 {plain, 100*cent - 1, 1, Settings{MinSavings: MinSavings{Share: 0.5}, Upstream: true}, true},
		"no saving for Karpenter":                  {plain, 100 * cent, 1, Settings{Upstream: true}, false},
		"a deletion":                               {plain, 0, 0, Settings{MinSavings: MinSavings{PerHour: 500 * cent}}, true},
		"a deletion for many pods":                 {[]Part{{Pool: pool(nil), Nodes: 1, Price: cent, EvictionCost: 5}}, 0, 0, perEviction, false},
		"a deletion for some pods":                 {[]Part{{Pool: pool(nil), Nodes: 1, Price: cent, EvictionCost: 4}}, 0, 0, perEviction, true},
		"a deletion for short stays":               {[]Part{{Pool: pool(nil), Nodes: 1, Price: cent, EvictionCost: 2, ShortStaySavings: cent/2 + 1}}, 0, 0, perEviction, false},
		"a deletion for longer stays":              {[]Part{{Pool: pool(nil), Nodes: 1, Price: cent, EvictionCost: 2, ShortStaySavings: cent / 2}}, 0, 0, perEviction, true},
		"short stays in a pool that asks for none": {[]Part{{Pool: pool(&MinSavings{}), Nodes: 1, Price: cent, EvictionCost: 2, ShortStaySavings: 5 * cent}}, 0, 0, perEviction, true},
		"two pools, enough":                        {money, 193 * cent, 1, Defaults(), true},
		"two pools, too little":                    {money, 193*cent + 1, 1, Defaults(), false},
		"a pool that asks for none":                {[]Part{{Pool: pool(&MinSavings{}), Price: 100 * cent}}, 100*cent - 1, 1, Defaults(), true},
	} {
		before := offering.Price(0)
		for _, p := range tc.parts {
			before += p.Price
		}
		if got := Pays(tc.parts, before-tc.after, tc.launches, tc.s); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if got := (MinSavings{Share: 0.05}).ForPrice(3); got != 1 {
		t.Errorf("shares are rounded to %d", got)
	}
	if Pays(plain, 0, 0, Settings{}) {
		t.Error("removing what costs nothing pays")
	}
}

// Rule CONSOLIDATION-24: the sooner a pod may leave by itself, the more its eviction costs.
func TestShortStayCost(t *testing.T) {
	for _, tc := range []struct {
		cost      float64
		remaining time.Duration
		want      float64
	}{
		{1, 3 * time.Hour, 0}, {1, 2 * time.Hour, 0}, {1, time.Hour, 1}, {2, time.Hour / 2, 6}, {1, time.Minute, 119}, {1, 0, 119}, {1, -time.Hour, 119}, {0, 0, 0},
	} {
		if got := ShortStayCost(tc.cost, tc.remaining, 2*time.Hour); got != tc.want {
			t.Errorf("a pod of cost %v that stays for %v costs %v more, want %v", tc.cost, tc.remaining, got, tc.want)
		}
	}
	for _, short := range []time.Duration{0, time.Second} {
		if got := ShortStayCost(1, 0, short); got != 0 {
			t.Errorf("where pods must be expected to stay for %v, one costs %v more", short, got)
		}
	}
}

// Rule CONSOLIDATION-17: a move in a Balanced pool saves at least half the share of it that it
// disrupts.
func TestBalanced(t *testing.T) {
	nodes := make([]Node, 10)
	prices := map[string]offering.Price{}
	for i := range nodes {
		nodes[i] = Node{Key: string(rune('a' + i)), Pool: "p", ReschedulablePods: ReschedulablePods{Pods: 9, EvictionCost: 9}}
		prices[nodes[i].Key] = 10 * cent
	}
	nodes[9].Pool = "q"
	totals := TotalsOf(&Input{Nodes: nodes}, func(key string) offering.Price { return prices[key] })
	want := map[string]PoolTotals{"p": {90 * cent, 90}, "q": {10 * cent, 10}}
	if diff := cmp.Diff(want, totals); diff != "" {
		t.Fatal(diff)
	}
	p, q := &Pool{Name: "p", Policy: Balanced}, &Pool{Name: "q"}
	one := []Part{{Pool: p, Nodes: 1, Price: 10 * cent, EvictionCost: 9}}
	both := append(one, Part{Pool: q, Nodes: 1, Price: 10 * cent, EvictionCost: 9})
	for name, tc := range map[string]struct {
		parts  []Part
		saves  offering.Price
		scores map[string]float64
		ok     bool
	}{
		"all of it":        {one, 10 * cent, map[string]float64{"p": 1}, true},
		"half of it":       {one, 5 * cent, map[string]float64{"p": 0.5}, true},
		"less":             {one, 4 * cent, map[string]float64{"p": 0.4}, false},
		"nothing":          {one, 0, map[string]float64{"p": 0}, false},
		"a loss":           {one, -cent, map[string]float64{"p": 0}, false},
		"shared":           {both, 10 * cent, map[string]float64{"p": 0.5}, true},
		"no Balanced pool": {both[1:], 0, nil, true},
	} {
		scores, ok := ScoreByPool(tc.parts, tc.saves, totals)
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
		if diff := cmp.Diff(tc.scores, scores, near); diff != "" || ok != tc.ok {
			t.Errorf("%s: %t %s", name, ok, diff)
		}
	}
	q.Policy = Balanced
	if scores, ok := ScoreByPool(both, 10*cent, map[string]PoolTotals{"p": want["p"]}); ok || scores["q"] != 0 {
		t.Errorf("a pool that costs nothing approves: %v", scores)
	}
	if s := Score(1, 0, PoolTotals{Price: 1, DisruptionCost: 1}); !math.IsInf(s, 1) {
		t.Errorf("disturbing nothing scores %v", s)
	}
	if n := (Node{ReschedulablePods: ReschedulablePods{EvictionCost: 99}}); !CannotReachThreshold(&n, p, 10*cent, want["p"]) || CannotReachThreshold(&n, p, 90*cent, want["p"]) || CannotReachThreshold(&n, p, cent, PoolTotals{}) {
		t.Error("nodes that can reach the threshold are not distinguished from those that cannot")
	}
}

// Rule CONSOLIDATION-18: a saving is worth more the less it disrupts.
func TestPricePerDisruption(t *testing.T) {
	if a, b := PricePerDisruption(10*cent, &Node{ReschedulablePods: ReschedulablePods{EvictionCost: 9}}), PricePerDisruption(10*cent, &Node{}); b != 10*a {
		t.Errorf("%v and %v", a, b)
	}
}
