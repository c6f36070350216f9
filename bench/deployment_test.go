// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// A Deployment of 4,000 pods of 250m on an open NodePool gets few nodes, for at most 1 % more than the
// pods would cost at the least price that any offering has per pod: no plan can cost less than that.
func TestOneDeployment(t *testing.T) {
	const replicas, milli, mib = 4000, 250, 2 * 250
	s, err := scenario.Deployments(t.Context(), scenario.Deployment{Replicas: replicas, Milli: milli, MiB: mib})
	if err != nil {
		t.Fatal(err)
	}
	perPod := math.Inf(1)
	for i := range s.Types {
		n := podsOn(&s.Types[i], milli, mib<<20)
		for _, o := range s.Types[i].Offerings {
			if n > 0 && o.CapacityType == offering.OnDemand && o.Unavailable == "" {
				perPod = min(perPod, o.Price.USD()/float64(n))
			}
		}
	}
	plan, _ := karve.New(s).Decide()
	t.Logf("%d nodes for %s an hour; %d pods cost %.4f at the least price per pod", len(plan.Launches), plan.Price(), replicas, replicas*perPod)
	if len(plan.Unplaced) > 0 || len(plan.Launches) > 60 {
		t.Errorf("%d nodes, left out: %v; want at most 60, and none", len(plan.Launches), plan.Unplaced)
	}
	if price := plan.Price().USD(); price > 1.01*replicas*perPod || price < replicas*perPod {
		t.Errorf("costs %.4f, the least is %.4f", price, replicas*perPod)
	}
}

// podsOn is how many pods with those requests a node of the type has room for: of a burstable type's CPU
// what it has all the time counts.
func podsOn(t *offering.InstanceType, milli, bytes int64) int64 {
	left := func(name string) int64 { return t.Capacity[name] - t.Overhead[name] }
	cpu := left(quantity.NameCPU)
	if t.SustainedCPU > 0 {
		cpu = min(cpu, t.SustainedCPU-t.Overhead[quantity.NameCPU])
	}
	return min(cpu/milli, left(quantity.NameMemory)/bytes, left(quantity.NamePods))
}
