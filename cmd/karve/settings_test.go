package main

import (
	"strings"
	"testing"

	"github.com/karve-dev/karve/engine/world"
)

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		want world.Settings
	}{
		{nil, world.Settings{Preferences: world.Respect, Surplus: 100}},
		{map[string]string{"PREFERENCE_POLICY": "Ignore", "MIN_VALUES_POLICY": "BestEffort"}, world.Settings{Preferences: world.Ignore, Surplus: 100, RelaxMinValues: true}},
		{map[string]string{"PREFERENCE_SURPLUS": "unlimited"}, world.Settings{Preferences: world.Respect, Surplus: world.UnlimitedSurplus}},
		{map[string]string{"PREFERENCE_SURPLUS": "2.5%"}, world.Settings{Preferences: world.Respect, Surplus: 25}},
		{map[string]string{"PREFERENCE_SURPLUS": "0"}, world.Settings{Preferences: world.Respect}},
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

func TestSettingsAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"PREFERENCE_SURPLUS", "much", "--preference-surplus (or PREFERENCE_SURPLUS) must be a percentage"},
		{"PREFERENCE_SURPLUS", "-1", "must be a percentage"},
		{"PREFERENCE_SURPLUS", "NaN", "must be a percentage"},
		{"PREFERENCE_SURPLUS", "1e9", "must be a percentage"},
		{"PREFERENCE_SURPLUS", "2.55", "at most one digit after the point"},
		{"PREFERENCE_POLICY", "respect", "must be one of Respect, Ignore"},
		{"MIN_VALUES_POLICY", "Loose", "must be one of Strict, BestEffort"},
	} {
		env := complete()
		env[tc.name] = tc.value
		if _, err := load(nil, env); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: got %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
}
