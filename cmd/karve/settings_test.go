// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
)

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		want cluster.Settings
	}{
		{nil, cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: 100}},
		{map[string]string{"PREFERENCE_POLICY": "Ignore", "MIN_VALUES_POLICY": "BestEffort"}, cluster.Settings{Preferences: cluster.Ignore, PreferenceSurplusPermille: 100, RelaxMinValues: true}},
		{map[string]string{"PREFERENCE_SURPLUS": "unlimited"}, cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: cluster.UnlimitedPreferenceSurplus}},
		{map[string]string{"PREFERENCE_SURPLUS": "2.5%"}, cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: 25}},
		{map[string]string{"PREFERENCE_SURPLUS": "0"}, cluster.Settings{Preferences: cluster.Respect}},
	} {
		env := complete()
		for name, value := range tc.env {
			env[name] = value
		}
		c, err := load(nil, env)
		if err != nil {
			t.Errorf("%v: %v", tc.env, err)
			continue
		}
		if got := c.Core.settings(); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.env, got, tc.want)
		}
	}
}

// Rule CONSOLIDATION-16, Rule MOVE-6. Out of the box the flags say what the engine calls its defaults, and what
// evictions must save holds whatever the flags say.
func TestDisruptionSettings(t *testing.T) {
	karve := disrupt.Defaults()
	karve.MaxSteps = 200
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for _, tc := range []struct {
		env  map[string]string
		want disrupt.Settings
	}{
		{nil, karve},
		{map[string]string{"CONSOLIDATION_MIN_SAVINGS": "$0.02/h", "CONSOLIDATION_MIN_NODE_AGE": "1h", "CONSOLIDATION_EXPECTED_STAY": "10m", "CONSOLIDATION_STEPS": "0"},
			disrupt.Settings{MinSavings: disrupt.MinSavings{PerHour: 2e7, PerEviction: karve.MinSavings.PerEviction, ShareOfPodCost: karve.MinSavings.ShareOfPodCost, ShortStayShare: karve.MinSavings.ShortStayShare}, MinAge: minutes(60), ExpectedStay: minutes(10)}},
		{map[string]string{"CONSOLIDATION_RULES": "Karpenter", "FEATURE_GATES": "SpotToSpotConsolidation=true"},
			disrupt.Settings{MinSavings: karve.MinSavings, MinAge: minutes(5), ExpectedStay: minutes(60), MaxSteps: 200, Upstream: true, SpotToSpot: true}},
	} {
		env := complete()
		maps.Copy(env, tc.env)
		c, err := load(nil, env)
		if err != nil {
			t.Errorf("%v: %v", tc.env, err)
			continue
		}
		if got := c.Core.disruption(); got != tc.want || c.Core.ConsolidationValidation != 15*time.Second {
			t.Errorf("%v: %+v after %s, want %+v", tc.env, got, c.Core.ConsolidationValidation, tc.want)
		}
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"PREFERENCE_SURPLUS", "much", "--preference-surplus (or PREFERENCE_SURPLUS) must be a percentage"},
		{"PREFERENCE_SURPLUS", "-1", "must be a percentage"},
		{"PREFERENCE_SURPLUS", "NaN", "must be a percentage"},
		{"PREFERENCE_SURPLUS", "1e9", "must be a percentage"},
		{"PREFERENCE_SURPLUS", "2.55", "at most one digit after the point"},
		{"PREFERENCE_POLICY", "respect", "must be one of Respect, Ignore"},
		{"CONSOLIDATION_MIN_SAVINGS", "plenty", "--consolidation-min-savings (or CONSOLIDATION_MIN_SAVINGS) "},
		{"CONSOLIDATION_RULES", "mine", "must be one of Karve, Karpenter"},
		{"CONSOLIDATION_VALIDATION_DELAY", "-1s", "must not be negative"},
		{"CONSOLIDATION_EXPECTED_STAY", "-1s", "must not be negative"},
		{"MIN_VALUES_POLICY", "Loose", "must be one of Strict, BestEffort"},
	} {
		env := complete()
		env[tc.name] = tc.value
		if _, err := load(nil, env); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: got %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
}
