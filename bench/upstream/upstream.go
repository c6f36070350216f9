// SPDX-License-Identifier: Apache-2.0

// Package upstream runs Karpenter's own scheduler, imported as a library, on the
// bench's inputs. A decision is what its provisioner does for one batch: count
// the topology, make a scheduler, solve, truncate.
//
// Every doubtful cost is decided in upstream's favour: reading objects costs it nothing
// (a store in memory that copies no object), copying its cluster state is not
// counted, no deadline cuts it short, and it may use five workers as in its own
// benchmark.
package upstream

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	nodepoolutils "sigs.k8s.io/karpenter/pkg/utils/nodepool"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
)

// workers is what upstream's own benchmark uses.
const workers = 5

// maxTypes is upstream's limit of types in a NodeClaim.
const maxTypes = 600

// Cluster is upstream's view of a scenario, kept warm as its informers keep it.
type Cluster struct {
	ctx     context.Context
	store   *store
	state   *state.Cluster
	pools   []*karpv1.NodePool
	types   map[string][]*cloudprovider.InstanceType // by pool
	daemons []*corev1.Pod
	pending []*corev1.Pod
	opts    []scheduling.Options
}

// New brings up the cluster of s.
func New(ctx context.Context, s *scenario.Scenario) (*Cluster, error) {
	log.SetLogger(logr.Discard())
	ctx = options.ToContext(injection.WithControllerName(ctx, "provisioner"), &options.Options{MinValuesPolicy: options.MinValuesPolicyStrict})
	c := &Cluster{ctx: ctx, store: newStore(s), pending: s.Pending, types: map[string][]*cloudprovider.InstanceType{}}
	c.state = state.NewCluster(clock.RealClock{}, c.store, nil)
	c.pools = slices.Clone(s.Pools)
	nodepoolutils.OrderByWeight(c.pools)
	converted := InstanceTypes(s.Types)
	for _, p := range c.pools {
		c.types[p.Name] = converted
	}
	for _, d := range s.DaemonSets {
		c.daemons = append(c.daemons, daemonset.PodForDaemonSet(d))
	}
	c.opts = []scheduling.Options{scheduling.NumConcurrentReconciles(workers), scheduling.MinValuesPolicy(options.MinValuesPolicyStrict)}
	if s.Settings.Preferences == cluster.Ignore {
		c.opts = append(c.opts, scheduling.IgnorePreferences)
	}
	return c, c.load(s)
}

// load fills the cluster state as the state controllers would.
func (c *Cluster) load(s *scenario.Scenario) error {
	for _, claim := range s.Claims {
		c.state.UpdateNodeClaim(claim)
	}
	for _, n := range s.Nodes {
		if err := c.state.UpdateNode(c.ctx, n); err != nil {
			return fmt.Errorf("adding to upstream's cluster state: node %s: %w", n.Name, err)
		}
	}
	for _, p := range s.Bound {
		if err := c.state.UpdatePod(c.ctx, p); err != nil {
			return fmt.Errorf("adding to upstream's cluster state: pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// Batch is one decision, ready to be taken. Making it is not part of the decision.
type Batch struct {
	*Cluster
	pods  []*corev1.Pod
	nodes []*state.StateNode
}

// Batch copies what a decision may change.
func (c *Cluster) Batch() *Batch {
	return &Batch{Cluster: c, pods: slices.Clone(c.pending), nodes: c.state.DeepCopyNodes().Active()}
}

// Decide takes the decision.
func (b *Batch) Decide() (scheduling.Results, error) {
	topology, err := scheduling.NewTopology(b.ctx, b.store, b.state, b.nodes, b.pools, b.types, b.pods, b.opts...)
	if err != nil {
		return scheduling.Results{}, fmt.Errorf("counting topology: %w", err)
	}
	s := scheduling.NewScheduler(b.ctx, b.store, b.pools, b.state, b.nodes, topology, b.types, b.daemons,
		noEvents{}, clock.RealClock{}, nil, nil, b.opts...)
	results, err := s.Solve(b.ctx, b.pods)
	if err != nil {
		return scheduling.Results{}, fmt.Errorf("solving: %w", err)
	}
	return results.TruncateInstanceTypes(b.ctx, maxTypes), nil
}

// USDPerHour is what the results cost when every claim gets its cheapest offering.
func USDPerHour(r scheduling.Results) (float64, error) {
	sum := 0.0
	for _, claim := range r.NewNodeClaims {
		_, price, err := cheapest(claim)
		if err != nil {
			return 0, err
		}
		sum += price
	}
	return sum, nil
}

// cheapest is the cheapest instance that the claim accepts, and its price, $/h.
func cheapest(claim *scheduling.NodeClaim) (scenario.Instance, float64, error) {
	best, price := scenario.Instance{Pool: claim.NodePoolName}, math.Inf(1)
	for _, t := range claim.InstanceTypeOptions {
		for _, o := range t.Offerings {
			if o.Available && o.Price < price && claim.Requirements.IsCompatible(o.Requirements, requirements.AllowUndefinedWellKnownLabels) {
				best.Type, best.Zone, best.CapacityType, price = t.Name, o.Zone(), o.CapacityType(), o.Price
			}
		}
	}
	if math.IsInf(price, 1) {
		return best, 0, fmt.Errorf("a NodeClaim of pool %s has no available offering", claim.NodePoolName)
	}
	return best, price, nil
}

// noEvents discards events.
type noEvents struct{}

func (noEvents) Publish(...events.Event) {}
