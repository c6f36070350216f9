// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// settings are what the flags say about every decision. The Config is valid.
func (c CoreConfig) settings() cluster.Settings {
	thousandths, _ := surplus(c.PreferenceSurplus) // validated
	return cluster.Settings{
		Preferences:               cluster.PreferencePolicy(c.PreferencePolicy),
		PreferenceSurplusPermille: thousandths,
		RelaxMinValues:            c.MinValuesPolicy == "BestEffort",
	}
}

// disruption is what the flags say about every decision about nodes. The Config is valid.
func (c CoreConfig) disruption() disrupt.Settings {
	ofNodes, _ := kube.MinSavings(c.ConsolidationMinSavings) // validated
	minSavings := disrupt.Defaults().MinSavings
	minSavings.Share, minSavings.PerHour = ofNodes.Share, ofNodes.PerHour
	gates, _ := features(c.FeatureGates)
	return disrupt.Settings{
		MinSavings:   minSavings,
		MinAge:       c.ConsolidationMinAge,
		ExpectedStay: c.ConsolidationExpectedStay,
		SpotToSpot:   gates.SpotToSpotConsolidation,
		Upstream:     c.ConsolidationRules == "Karpenter",
		MaxSteps:     c.ConsolidationSteps,
	}
}

// mostSurplus is in percent; who wants more wants no bound.
const mostSurplus = 100_000

// surplus reads --preference-surplus into thousandths.
func surplus(text string) (int, error) {
	if text == "unlimited" {
		return cluster.UnlimitedPreferenceSurplus, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	thousandths := math.Round(percent * 10)
	switch {
	case err != nil, math.IsNaN(percent), percent < 0, percent > mostSurplus:
		return 0, fmt.Errorf("must be a percentage from 0 to %d, or unlimited, got %q", mostSurplus, text)
	case math.Abs(percent*10-thousandths) > 1e-6:
		return 0, fmt.Errorf("has at most one digit after the point, got %q", text)
	}
	return int(thousandths), nil
}
