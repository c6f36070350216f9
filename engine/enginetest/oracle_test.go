// SPDX-License-Identifier: Apache-2.0

package enginetest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
)

// TestBest tries the oracle on scripts whose best plan is obvious.
func TestBest(t *testing.T) {
	const cent = offering.Price(1e7)
	for _, tc := range []struct {
		name, script string
		want         enginetest.Score
	}{
		{"one large node", "type S cpu=2 price=0.10\ntype L cpu=8 price=0.30\npool all\npods w x4 cpu=2", enginetest.Score{Placed: []int{4, 0}, Light: []int{}, Price: 30 * cent}},
		{"two small nodes", "type S cpu=4 price=0.10\ntype L cpu=8 price=0.30\npool all\npods w x4 cpu=2", enginetest.Score{Placed: []int{4, 0}, Light: []int{}, Price: 20 * cent}},
		{"nodes first", "type S cpu=4 price=0.10\npool all\nnode n cpu=4\npods w x4 cpu=2", enginetest.Score{Placed: []int{4, 0}, Light: []int{}, Price: 10 * cent}},
		{"urgent pods first", "type S cpu=4 price=0.10\npool all limit:cpu=4\npods w x4 cpu=1\npods u x1 cpu=4 priority=5", enginetest.Score{Placed: []int{1, 0, 0}, Light: []int{}, Price: 10 * cent}},
		{"virtual pods last", "type S cpu=4 price=0.10\npool all limit:cpu=4\npods w x1 cpu=1\npods v x9 cpu=2 priority=5 virtual", enginetest.Score{Placed: []int{0, 1, 1}, Light: []int{}, Price: 10 * cent}},
		{"heavier pools first", "type S cpu=4 price=0.10 spot=0.01\npool dear weight=5 require:capacity-type=In:on-demand limit:nodes=1\npool cheap require:capacity-type=In:spot\npods w x3 cpu=2", enginetest.Score{Placed: []int{3, 0}, Light: []int{1}, Price: 11 * cent}},
		{"a node per zone", "type S cpu=4 price=0.10 zones=1,2,3\npool all\npods w x4 cpu=1 label:a=w spread=zone:1", enginetest.Score{Placed: []int{4, 0}, Light: []int{}, Price: 30 * cent}},
		{"a node per pod", "type S cpu=4 price=0.10\npool all\npods w x3 cpu=1 label:a=w anti-affinity=host", enginetest.Score{Placed: []int{3, 0}, Light: []int{}, Price: 30 * cent}},
		{"affinity in the expensive zone", "type S cpu=2 price=0.10\ntype T cpu=2 price=0.40 zones=2\npool all\nnode n cpu=1 zone=2\npod x cpu=1 on=n label:a=x\npods w x2 cpu=1 affinity=zone:a=x", enginetest.Score{Placed: []int{2, 0}, Light: []int{}, Price: 40 * cent}},
		{"reserved while it lasts", "type S cpu=4 price=0.10 reserved=0.01/r/1\npool all\npods w x2 cpu=4", enginetest.Score{Placed: []int{2, 0}, Light: []int{}, Price: 11 * cent}},
		{"two attached each", "type S cpu=8 price=0.10 attach:disk=2\npool all\npods w x4 cpu=1 volume=v-#:disk", enginetest.Score{Placed: []int{4, 0}, Light: []int{}, Price: 20 * cent}},
		{"what cannot be", "type S cpu=4 price=0.10\npool all\npods w x2 cpu=5", enginetest.Score{Placed: []int{0, 0}, Light: []int{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := enginetest.Parse(tc.script)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := enginetest.BestScore(script)
			if diff := cmp.Diff(tc.want, got); diff != "" || !ok {
				t.Errorf("best score (-want +got; in time: %v):\n%s", ok, diff)
			}
		})
	}
}

// TestBestIsQuick checks that nearly all small scripts are small enough for BestScore.
func TestBestIsQuick(t *testing.T) {
	over := 0
	for seed := range uint64(200) {
		if _, ok := enginetest.BestScore(enginetest.RandomSmall(seed, true)); !ok {
			t.Logf("seed %d takes too many steps", seed)
			over++
		}
	}
	if over > 10 {
		t.Errorf("%d of 200 scripts are too large for BestScore", over)
	}
}
