// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/operator/injection"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/offering"
)

// Live is Karpenter's provisioner and disruption controller, with one cluster state, over a fleet
// to which pods come and from which they go. At sets the clock, which goes on while upstream
// decides and where it waits to validate a command. Pods and budgets come through Observe.
type Live struct{ disruption *Disruption }

// NewLive brings up both controllers.
func NewLive(ctx context.Context, s *scenario.Scenario) (*Live, error) {
	d, err := NewDisruption(ctx, s)
	if err != nil {
		return nil, err
	}
	d.pause = 0
	return &Live{d}, nil
}

// At sets the time, unless upstream's decisions took longer than that.
func (l *Live) At(now time.Time) { l.disruption.clock.set(now) }

// Observe applies what changed to the cluster state.
func (l *Live) Observe(delta fleet.Delta) error { return l.disruption.Observe(delta) }

// Next asks the methods in order until one wants to act.
func (l *Live) Next() (consolidate.Round, error) { return l.disruption.Next() }

// Provision asks the provisioner about the pods that wait.
func (l *Live) Provision() (fleet.Change, error) {
	d := l.disruption
	out := fleet.Change{Receivers: map[string][]types.UID{}}
	results, err := d.provisioner.Schedule(injection.WithControllerName(d.ctx, "provisioner"))
	if err != nil {
		return out, fmt.Errorf("asking upstream's provisioner: %w", err)
	}
	all := func(*corev1.Pod) bool { return true }
	return out, place(&out, results.ExistingNodes, results.NewNodeClaims, all)
}

// Launchable are the instance types that upstream finds compatible with the NodePool.
func Launchable(types []offering.InstanceType, p *karpv1.NodePool) []offering.InstanceType {
	var out []offering.InstanceType
	for i, t := range InstanceTypes(types) {
		if canLaunch(p, t) {
			out = append(out, types[i])
		}
	}
	return out
}
