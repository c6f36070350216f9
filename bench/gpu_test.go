// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/scenario"
)

// Pods of different sizes that want a GPU each cost no more than the best plans known for them: large
// ones share nodes with four GPUs, as far as their cores allow, and small ones get nodes of their own
// where these are cheaper. Pods that want no GPU do not change that.
func TestMixedClassesOnGPUSizes(t *testing.T) {
	large := scenario.Deployment{Replicas: 40, Milli: 15_000, MiB: 1024, GPUs: 1}
	for name, tc := range map[string]struct {
		deployments []scenario.Deployment
		most        float64 // USD/h
	}{
		"cores for three and a small one": {[]scenario.Deployment{
			{Replicas: 40, Milli: 18_700, MiB: 1024, GPUs: 1}, {Replicas: 40, Milli: 3150, MiB: 1024, GPUs: 1}}, 72.04},
		"cores for four":                      {[]scenario.Deployment{large}, 43.53},
		"and a few pods without GPU":          {[]scenario.Deployment{large, {Replicas: 3, Milli: 500, MiB: 1024}}, 43.53},
		"and as many small ones with one GPU": {[]scenario.Deployment{large, {Replicas: 40, Milli: 500, MiB: 1024, GPUs: 1}}, 61.69},
	} {
		s, err := scenario.Deployments(t.Context(), tc.deployments...)
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := karve.New(s).Decide()
		nodes := map[string]int{}
		for _, l := range plan.Launches {
			nodes[l.Offerings[0].Type]++
		}
		t.Logf("%s: %s an hour, at least %s; %v", name, plan.Price(), plan.LowerBound, nodes)
		if len(plan.Unplaced) > 0 || plan.Price().USD() > tc.most {
			t.Errorf("%s: %s an hour, want at most %.2f; left out: %v", name, plan.Price(), tc.most, plan.Unplaced)
		}
	}
}
