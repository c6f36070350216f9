// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/offering"
)

// Disruption is Karpenter's disruption controller over a fleet: its methods, cluster
// state and provisioner. What its queue and the controllers around it would do over
// minutes happens at once: a command's nodes are gone, its replacements initialized and
// its pods where the simulation put them before it looks again. Its own limits of a
// minute for several nodes and three for single ones hold.
type Disruption struct {
	ctx     context.Context
	clock   *skippingClock
	store   *store
	state   *state.Cluster
	cloud   *cloud
	queue   *disruption.Queue
	methods []disruption.Method
	make    func() []disruption.Method

	provisioner *provisioning.Provisioner
	// pause is how long nodes take to start and drain once a change was decided.
	pause time.Duration
}

// NewDisruption brings up the controller.
func NewDisruption(ctx context.Context, s *scenario.Scenario) (*Disruption, error) {
	log.SetLogger(logr.Discard())
	ctx = options.ToContext(injection.WithControllerName(ctx, "disruption"), &options.Options{
		MinValuesPolicy: options.MinValuesPolicyStrict, PreferencePolicy: options.PreferencePolicyRespect, IgnoreDRARequests: true,
		CPURequests:  1000, // a provisioner works with as many workers as it asks for cores
		FeatureGates: options.FeatureGates{SpotToSpotConsolidation: true},
	})
	d := &Disruption{
		ctx: ctx, clock: &skippingClock{start: time.Now(), skipped: scenario.Now()}, store: newStore(s), cloud: newCloud(s.Types, s.Pools),
		pause: 10 * time.Minute,
	}
	d.state = state.NewCluster(d.clock, d.store, d.cloud)
	provisioner := provisioning.NewProvisioner(d.store, noEvents{}, d.cloud, d.state, d.clock, nil, nil)
	d.provisioner = provisioner
	d.queue = disruption.NewQueue(d.store, noEvents{}, d.state, d.clock, provisioner)
	d.make = func() []disruption.Method {
		return disruption.NewMethods(d.clock, d.state, d.store, provisioner, d.cloud, noEvents{}, d.queue)
	}
	d.methods = d.make()
	for i, n := range s.Nodes {
		if err := d.addNode(n, s.Claims[i]); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Bound {
		if err := d.bind(p); err != nil {
			return nil, err
		}
	}
	for _, ds := range s.DaemonSets {
		if err := d.state.UpdateDaemonSet(ctx, ds); err != nil {
			return nil, fmt.Errorf("adding to upstream's cluster state: DaemonSet %s: %w", ds.Name, err)
		}
	}
	return d, nil
}

func (d *Disruption) addNode(n *corev1.Node, claim *karpv1.NodeClaim) error {
	d.state.UpdateNodeClaim(claim)
	if err := d.state.UpdateNode(d.ctx, n); err != nil {
		return fmt.Errorf("adding to upstream's cluster state: node %s: %w", n.Name, err)
	}
	return nil
}

func (d *Disruption) bind(p *corev1.Pod) error {
	if err := d.state.UpdatePod(d.ctx, p); err != nil {
		return fmt.Errorf("adding to upstream's cluster state: pod %s: %w", p.Name, err)
	}
	return nil
}

// Observe applies a change to the cluster state.
func (d *Disruption) Observe(delta fleet.Delta) error {
	d.clock.skip(d.pause)
	d.store.observe(delta)
	for _, p := range delta.Ended {
		d.state.DeletePod(client.ObjectKeyFromObject(p))
	}
	for i, n := range delta.Nodes {
		if err := d.addNode(n, delta.Claims[i]); err != nil {
			return err
		}
	}
	for _, c := range delta.Settled {
		d.state.UpdateNodeClaim(c)
	}
	for _, p := range slices.Concat(delta.Arrived, delta.Started, delta.Bound) {
		if err := d.bind(p); err != nil {
			return err
		}
	}
	for _, p := range delta.Moved {
		d.state.DeletePod(client.ObjectKeyFromObject(p))
		if err := d.bind(p); err != nil {
			return err
		}
	}
	for i, n := range delta.Gone {
		d.state.DeleteNodeClaim(delta.GoneClaims[i].Name)
		d.state.DeleteNode(n.Name)
	}
	return nil
}

// Next asks the methods in order until one wants to act, as each round of the controller
// does. It is done when none does and none gave up because its time was over.
func (d *Disruption) Next() (consolidate.Round, error) {
	r := consolidate.Round{Done: true}
	for _, m := range d.methods {
		changes, cut, err := d.ask(m)
		if err != nil {
			return r, err
		}
		if len(changes) > 0 {
			return consolidate.Round{Changes: changes}, nil
		}
		r.Done = r.Done && !cut
	}
	return r, nil
}

// Pass asks every method once what it would do, as though no other had acted before.
func (d *Disruption) Pass() error {
	for _, m := range d.make() {
		if _, _, err := d.ask(m); err != nil {
			return err
		}
	}
	return nil
}

// ask is what the controller does for one method before it starts its commands.
func (d *Disruption) ask(m disruption.Method) ([]fleet.Change, bool, error) {
	begun := time.Now()
	candidates, totals, err := disruption.GetCandidatesWithTotals(d.ctx, d.state, d.store, noEvents{}, d.clock, d.cloud, m.ShouldDisrupt, m.Class(), d.queue, nil)
	if err != nil {
		return nil, false, fmt.Errorf("finding candidates for %s: %w", m.ConsolidationType(), err)
	}
	if len(candidates) == 0 {
		return nil, false, nil
	}
	if scored, ok := m.(disruption.NodePoolTotalsSetter); ok {
		scored.SetNodePoolTotals(totals)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(d.ctx, d.state, d.clock, d.store, d.cloud, noEvents{}, m.Reason())
	if err != nil {
		return nil, false, fmt.Errorf("counting budgets for %s: %w", m.ConsolidationType(), err)
	}
	commands, err := m.ComputeCommands(d.ctx, budgets, candidates...)
	if err != nil {
		return nil, false, fmt.Errorf("asking method %s: %w", m.ConsolidationType(), err)
	}
	var out []fleet.Change
	for _, c := range commands {
		if c.Decision() == disruption.NoOpDecision {
			continue
		}
		change, err := changeOf(&c)
		if err != nil {
			return nil, false, err
		}
		out = append(out, change)
	}
	return out, time.Since(begun) >= limit(m), nil
}

// limit is the time that the method gives itself.
func limit(m disruption.Method) time.Duration {
	switch m.ConsolidationType() {
	case disruption.MultiNodeConsolidationType:
		return disruption.MultiNodeConsolidationTimeoutDuration
	case disruption.SingleNodeConsolidationType:
		return disruption.SingleNodeConsolidationTimeoutDuration
	}
	return math.MaxInt64
}

// changeOf converts a command; pods go where its simulation put them. The simulation also looks
// at pods that wait; where these go is not part of the command.
func changeOf(c *disruption.Command) (fleet.Change, error) {
	out := fleet.Change{Receivers: map[string][]types.UID{}}
	for _, n := range c.Candidates {
		out.Gone = append(out.Gone, n.Name())
	}
	claims := make([]*scheduling.NodeClaim, len(c.Replacements))
	for i, r := range c.Replacements {
		claims[i] = r.NodeClaim
	}
	bound := func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }
	return out, place(&out, c.Results.ExistingNodes, claims, bound)
}

// place adds where those pods go to the change.
func place(to *fleet.Change, nodes []*scheduling.ExistingNode, claims []*scheduling.NodeClaim, which func(*corev1.Pod) bool) error {
	for _, n := range nodes {
		if pods := uids(n.Pods, which); len(pods) > 0 {
			to.Receivers[n.Name()] = append(to.Receivers[n.Name()], pods...)
		}
	}
	for _, c := range claims {
		instance, _, err := cheapest(c)
		if err != nil {
			return err
		}
		to.Launches = append(to.Launches, fleet.Launch{Instance: instance, Pods: uids(c.Pods, which)})
	}
	return nil
}

func uids(pods []*corev1.Pod, which func(*corev1.Pod) bool) []types.UID {
	var out []types.UID
	for _, p := range pods {
		if which(p) {
			out = append(out, p.UID)
		}
	}
	return out
}

// skippingClock never waits: After skips the time and returns at once. Otherwise it runs
// as a real clock does, so that time limits hold.
type skippingClock struct {
	clock.RealClock // for what is not here
	start           time.Time
	skipped         time.Time
}

func (c *skippingClock) skip(d time.Duration) { c.skipped = c.skipped.Add(d) }

// set makes it that time, unless it is later already.
func (c *skippingClock) set(t time.Time) {
	if t.After(c.Now()) {
		c.start, c.skipped = time.Now(), t
	}
}

func (c *skippingClock) Now() time.Time { return c.skipped.Add(time.Since(c.start)) }

func (c *skippingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *skippingClock) After(d time.Duration) <-chan time.Time {
	c.skip(d)
	out := make(chan time.Time, 1)
	out <- c.Now()
	return out
}

// cloud offers each NodePool the instance types that it may launch.
type cloud struct {
	cloudprovider.CloudProvider // nil: deciding launches nothing
	byPool                      map[string][]*cloudprovider.InstanceType
}

func newCloud(types []offering.InstanceType, pools []*karpv1.NodePool) *cloud {
	all := InstanceTypes(types)
	c := &cloud{byPool: map[string][]*cloudprovider.InstanceType{}}
	for _, p := range pools {
		for _, t := range all {
			if canLaunch(p, t) {
				c.byPool[p.Name] = append(c.byPool[p.Name], t)
			}
		}
	}
	return c
}

// canLaunch reports whether the NodePool may launch the type at all.
func canLaunch(p *karpv1.NodePool, t *cloudprovider.InstanceType) bool {
	wants := requirements.NewNodeSelectorRequirementsWithMinValues(p.Spec.Template.Spec.Requirements...)
	return t.Requirements.Intersects(wants) == nil && t.Offerings.Available().HasCompatible(wants)
}

func (c *cloud) Name() string { return "bench" }

func (c *cloud) GetInstanceTypes(_ context.Context, p *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.byPool[p.Name], nil
}

func (c *cloud) GetSupportedNodeClasses() []status.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.azure.com", Version: "v1beta1", Kind: "AKSNodeClass"})
	return []status.Object{nodeClass{u}}
}

// nodeClass is only asked what kind it is of.
type nodeClass struct{ *unstructured.Unstructured }

func (nodeClass) GetConditions() []status.Condition { return nil }
func (nodeClass) SetConditions([]status.Condition)  {}
func (n nodeClass) StatusConditions(...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(n)
}
