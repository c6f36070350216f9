// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Objects is a cluster as its API server has it, and what is sold. Upstream's controllers write on
// objects that they read, so they must not be shared.
type Objects struct {
	Types             []offering.InstanceType // with NodeOverlays applied
	IgnorePreferences bool
	RelaxMinValues    bool
	Objects           []client.Object
}

// Provision is what upstream's provisioner decides for the cluster, as a plan: from all pods that
// it would look at, over the cluster state that its informers would have. Launches list the
// offerings that the NodeClaim accepts, cheapest first. Pods that it does not place are not in the
// plan.
func Provision(ctx context.Context, in Objects) (plan schedule.Plan, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("upstream panicked: %v", p)
		}
	}()
	log.SetLogger(logr.Discard())
	preferences, minValues := options.PreferencePolicyRespect, options.MinValuesPolicyStrict
	if in.IgnorePreferences {
		preferences = options.PreferencePolicyIgnore
	}
	if in.RelaxMinValues {
		minValues = options.MinValuesPolicyBestEffort
	}
	ctx = options.ToContext(injection.WithControllerName(ctx, "provisioner"), &options.Options{
		MinValuesPolicy: minValues, PreferencePolicy: preferences, IgnoreDRARequests: true, CPURequests: 1000,
	})
	reader := &objectReader{objects: in.Objects}
	cloud := newCloud(in.Types, ofType[*karpv1.NodePool](in.Objects))
	known := state.NewCluster(clock.RealClock{}, reader, cloud)
	if err := observe(ctx, known, in.Objects); err != nil {
		return plan, err
	}
	results, err := provisioning.NewProvisioner(reader, noEvents{}, cloud, known, clock.RealClock{}, nil, nil).Schedule(ctx)
	if err != nil {
		return plan, fmt.Errorf("asking upstream's provisioner: %w", err)
	}
	return planOf(results, in.Types)
}

// observe fills the cluster state as the informers would.
func observe(ctx context.Context, known *state.Cluster, objects []client.Object) error {
	for _, c := range ofType[*karpv1.NodeClaim](objects) {
		known.UpdateNodeClaim(c)
	}
	for _, n := range ofType[*corev1.Node](objects) {
		if err := known.UpdateNode(ctx, n); err != nil {
			return fmt.Errorf("adding to upstream's cluster state: node %s: %w", n.Name, err)
		}
	}
	for _, p := range ofType[*corev1.Pod](objects) {
		// The informer asks again for a pod whose node is not there.
		if err := known.UpdatePod(ctx, p); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("adding to upstream's cluster state: pod %s: %w", p.Name, err)
		}
	}
	for _, d := range ofType[*appsv1.DaemonSet](objects) {
		if err := known.UpdateDaemonSet(ctx, d); err != nil {
			return fmt.Errorf("adding to upstream's cluster state: DaemonSet %s: %w", d.Name, err)
		}
	}
	return nil
}

func ofType[T client.Object](objects []client.Object) []T {
	var out []T
	for _, o := range objects {
		if o, ok := o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func planOf(r scheduling.Results, types []offering.InstanceType) (schedule.Plan, error) {
	var plan schedule.Plan
	for _, n := range r.ExistingNodes {
		if len(n.Pods) == 0 {
			continue
		}
		key := n.Name()
		if n.NodeClaim != nil {
			key = n.NodeClaim.Name
		}
		plan.Nominations = append(plan.Nominations, schedule.Nomination{Node: key, Pods: podRefs(n.Pods)})
	}
	for _, c := range r.NewNodeClaims {
		offerings := accepted(c, types)
		if len(offerings) == 0 {
			return plan, fmt.Errorf("upstream's NodeClaim of NodePool %s has no available offering", c.NodePoolName)
		}
		plan.Launches = append(plan.Launches, schedule.Launch{Pool: c.NodePoolName, Offerings: offerings, Labels: c.ToNodeClaim().Labels, Pods: podRefs(c.Pods)})
	}
	slices.SortFunc(plan.Nominations, func(a, b schedule.Nomination) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(plan.Launches, func(a, b schedule.Launch) int { return cmp.Compare(a.Pods[0].UID, b.Pods[0].UID) })
	return plan, nil
}

func podRefs(pods []*corev1.Pod) []cluster.PodRef {
	var out []cluster.PodRef
	for _, p := range pods {
		out = append(out, cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
	}
	return out
}

// accepted are the offerings that the NodeClaim accepts, cheapest first.
func accepted(c *scheduling.NodeClaim, types []offering.InstanceType) []offering.Ref {
	var out []offering.Ref
	for _, t := range c.InstanceTypeOptions {
		i := slices.IndexFunc(types, func(own offering.InstanceType) bool { return own.Name == t.Name })
		for k, o := range t.Offerings { // in the order of ours
			if own := types[i].Offerings[k]; o.Available && c.Requirements.IsCompatible(o.Requirements, requirements.AllowUndefinedWellKnownLabels) {
				out = append(out, offering.Ref{Type: t.Name, Zone: own.Zone, CapacityType: own.CapacityType, Price: own.Price})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b offering.Ref) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}
