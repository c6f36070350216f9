// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/upstream"
)

// Disruption is what a NodePool says. Both sides may disrupt as many nodes at once as they like.
func Disruption(policy karpv1.ConsolidationPolicy, after time.Duration) karpv1.Disruption {
	return karpv1.Disruption{
		ConsolidationPolicy: policy, ConsolidateAfter: karpv1.NillableDuration{Duration: &after}, Budgets: []karpv1.Budget{{Nodes: "100%"}},
	}
}

// Policies are those that a NodePool may have.
func Policies() []karpv1.ConsolidationPolicy {
	return []karpv1.ConsolidationPolicy{
		karpv1.ConsolidationPolicyWhenEmpty, karpv1.ConsolidationPolicyBalanced, karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
	}
}

// Karve replays the record with karve, from an empty cluster.
func Karve(empty *scenario.Scenario, r *Record, of Selection, d karpv1.Disruption, progress func(Outcome)) (Outcome, error) {
	s := empty.Disrupted(d)
	w, err := r.Workload(of)
	if err != nil {
		return Outcome{}, err
	}
	return Replay(s, w, karve.NewLive(s), progress)
}

// Upstream replays the record with Karpenter, from an empty cluster.
func Upstream(ctx context.Context, empty *scenario.Scenario, r *Record, of Selection, d karpv1.Disruption, progress func(Outcome)) (Outcome, error) {
	s := empty.Disrupted(d)
	w, err := r.Workload(of)
	if err != nil {
		return Outcome{}, err
	}
	side, err := upstream.NewLive(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	return Replay(s, w, side, progress)
}
