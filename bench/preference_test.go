// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/upstream"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// upstream needs minutes for all of its 4,000; the run of the benchmark has them.
var preferring = flag.Int("preferring", 500, "how many pods with preferences upstream plans for")

// With an unlimited surplus karve treats preferences as upstream does: each pod that
// prefers a node of its own gets one, at the same price.
func TestUnlimitedSurplusEqualsUpstream(t *testing.T) {
	s := scenario.Preferences(*preferring, cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: cluster.UnlimitedPreferenceSurplus})
	c, err := upstream.New(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := decide(c.Batch())
	if err != nil {
		t.Fatal(err)
	}
	ours, _ := karve.New(s).Decide()
	if len(ours.Launches) != *preferring || theirs.Nodes != *preferring || len(ours.Unplaced)+theirs.Unscheduled != 0 {
		t.Errorf("%d nodes of ours and %d of upstream's, want %d of both", len(ours.Launches), theirs.Nodes, *preferring)
	}
	if cost := ours.Price().USD(); cost > theirs.USDPerHour*(1+1e-9) {
		t.Errorf("%.6f $/h for ours, %.6f for upstream's", cost, theirs.USDPerHour)
	}
}

// Of 4,000 such pods the usual surplus makes a handful of nodes, at nearly what they
// cost without preferences.
func TestPreferencesHaveAPrice(t *testing.T) {
	plan := func(s cluster.Settings) schedule.Plan {
		p, _ := karve.New(scenario.Preferences(4000, s)).Decide()
		return p
	}
	least := plan(cluster.Settings{Preferences: cluster.Ignore})
	usual := plan(cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: 100})
	unlimited := plan(cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: cluster.UnlimitedPreferenceSurplus})
	if len(usual.Launches) > 40 || usual.Price().USD() > 1.1*least.Price().USD() {
		t.Errorf("%d nodes for %.3f $/h within the surplus, %.3f without preferences", len(usual.Launches), usual.Price().USD(), least.Price().USD())
	}
	if len(unlimited.Launches) != 4000 {
		t.Errorf("%d nodes without bound, want 4,000", len(unlimited.Launches))
	}
}
