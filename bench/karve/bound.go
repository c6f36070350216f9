// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/bound"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// LaunchBound is a price, in USD/h, that no launches can beat for the pods that the plan launches nodes for,
// each from NodePools of the weight that the plan uses for the pod. It is the higher of the plan's own bound
// and that of package bound, which knows that pods and nodes are whole, and which pods keep off each other's
// nodes, but nothing of preferences, spreads, affinity, and anti-affinity over zones. It is an error when the
// plan is not for s.
func LaunchBound(s *scenario.Scenario, plan schedule.Plan) (float64, error) {
	c := New(s)
	for _, p := range s.Pending {
		c.Set(p)
	}
	b := boundedPods{snapshot: c.Builder.Snapshot(), pods: map[boundedGroup]int{}, apart: map[*cluster.PodSelector]int{}}
	if err := b.addLaunched(plan); err != nil {
		return 0, err
	}
	r, err := b.least()
	return max(r.Price, plan.LowerBound.USD()), err
}

// ClusterBound is a price, in USD/h, that nothing can beat that consolidation makes of the cluster. Where a
// pod must not be disrupted, or a PodDisruptionBudget never allows it, its node stays, with all its pods.
// It is the higher of two bounds: the other one looks at no node that is there.
func ClusterBound(s *scenario.Scenario) (float64, error) {
	c := New(s)
	b := boundedPods{snapshot: c.Builder.Snapshot(), pods: map[boundedGroup]int{}}
	stay, err := nodesThatStay(s)
	if err != nil {
		return 0, err
	}
	kept := 0.0
	for _, n := range b.snapshot.Nodes {
		if stay[c.names[n.Key]] {
			kept += n.Price.USD()
			b.nodes = append(b.nodes, n)
			continue
		}
		n.EachReschedulable(func(class *cluster.PodClass, pods []cluster.PodRef) {
			b.add(boundedGroup{class, anyWeight}, len(pods))
		})
	}
	r, err := b.least()
	return max(kept+r.Price, boundAnew(s)), err
}

// nodesThatStay are the names of the nodes with pods that never may be evicted.
func nodesThatStay(s *scenario.Scenario) (map[string]bool, error) {
	stay := map[string]bool{}
	for _, p := range s.Bound {
		if p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
			stay[p.Spec.NodeName] = true
		}
	}
	for _, b := range s.PDBs {
		if !neverAllows(b) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("PodDisruptionBudget %s: %w", b.Name, err)
		}
		for _, p := range s.Bound {
			if p.Namespace == b.Namespace && selector.Matches(labels.Set(p.Labels)) {
				stay[p.Spec.NodeName] = true
			}
		}
	}
	return stay, nil
}

// neverAllows reports whether no eviction is ever allowed, however many pods there are and run.
func neverAllows(b *policyv1.PodDisruptionBudget) bool {
	if b.Spec.MaxUnavailable == nil {
		return false
	}
	of100, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, 100, true)
	return err == nil && of100 == 0
}

// boundAnew is the bound that the plan for an empty cluster with the pods has.
func boundAnew(s *scenario.Scenario) float64 {
	anew := *s
	anew.Nodes, anew.Claims, anew.Bound, anew.Pending = nil, nil, nil, nil
	for _, p := range s.Bound {
		if kube.OwnedByDaemonSet(p) {
			continue
		}
		waiting := *p // a shallow copy: nothing behind its pointers changes
		waiting.Spec.NodeName, waiting.Status = "", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}}
		anew.Pending = append(anew.Pending, &waiting)
	}
	plan, _ := New(&anew).Decide()
	return plan.LowerBound.USD()
}

// boundedPods are pods that need nodes, as package bound reads them.
type boundedPods struct {
	snapshot *cluster.Snapshot
	pods     map[boundedGroup]int
	order    []boundedGroup
	nodes    []*cluster.NodeInfo // that stay
	// apart are resources beside those of the snapshot, of which a node has one: pods that are selected by
	// their own required anti-affinity over nodes take it. Nil ignores who keeps apart.
	apart map[*cluster.PodSelector]int
}

// boundedGroup is pods of a class on nodes of pools of a weight.
type boundedGroup struct {
	class  *cluster.PodClass
	weight int32
}

// anyWeight lets the pods go to all pools.
const anyWeight = math.MinInt32

func (b *boundedPods) addLaunched(plan schedule.Plan) error {
	classes := map[string]*cluster.PodClass{}
	for _, class := range b.snapshot.Classes {
		for _, p := range class.PodsToPlace {
			classes[p.UID] = class
		}
	}
	for i := range plan.Launches {
		pool := b.snapshot.PoolCatalogOf(plan.Launches[i].Pool)
		for _, p := range plan.Launches[i].Pods {
			if classes[p.UID] == nil || pool == nil {
				return fmt.Errorf("the plan launches a node of NodePool %s for pod %s/%s, and one of them is not known", plan.Launches[i].Pool, p.Namespace, p.Name)
			}
			b.add(boundedGroup{classes[p.UID], pool.Pool.Weight}, 1)
		}
	}
	return nil
}

func (b *boundedPods) add(g boundedGroup, pods int) {
	b.pods[g] += pods
	if b.pods[g] > pods {
		return
	}
	b.order = append(b.order, g)
	for _, selector := range b.keepsApart(g.class) {
		if _, known := b.apart[selector]; !known {
			b.apart[selector] = quantity.Dims + len(b.apart)
		}
	}
}

// keepsApart are the selectors by which pods of the class keep off each other's nodes.
func (b *boundedPods) keepsApart(class *cluster.PodClass) (out []*cluster.PodSelector) {
	for _, t := range class.AntiAffinity {
		if b.apart != nil && repels(&t, class) {
			out = append(out, t.Selector)
		}
	}
	return out
}

// repels reports whether the term keeps pods of the class off the nodes of its owners.
func repels(t *cluster.AffinityTerm, class *cluster.PodClass) bool {
	return t.Weight == 0 && t.Key.Name == corev1.LabelHostname && t.Selector.Selects(class)
}

// exclude reports whether no node has pods of both classes.
func exclude(a, b *cluster.PodClass) bool {
	return slices.ContainsFunc(a.AntiAffinity, func(t cluster.AffinityTerm) bool { return repels(&t, b) }) ||
		slices.ContainsFunc(b.AntiAffinity, func(t cluster.AffinityTerm) bool { return repels(&t, a) })
}

func (b *boundedPods) least() (bound.Result, error) {
	groups := make([]bound.Group, len(b.order))
	for i, g := range b.order {
		groups[i] = bound.Group{Pods: b.pods[g], Requests: b.vector(&g.class.Requests)}
		for _, selector := range b.keepsApart(g.class) {
			groups[i].Requests[b.apart[selector]] = 1
		}
		for _, n := range b.nodes {
			groups[i].Into = append(groups[i].Into, n.Accepts(g.class.PodShape))
		}
	}
	if b.apart != nil {
		b.joinExclusive(groups)
	}
	var nodes []bound.Node
	for _, n := range b.nodes {
		nodes = append(nodes, bound.Node{Room: b.vector(&n.Free)})
	}
	return bound.Least(b.nodeTypes(groups), groups, nodes)
}

// nodeTypes lists the offerings, and adds to the groups which of them take their pods.
func (b *boundedPods) nodeTypes(groups []bound.Group) []bound.NodeType {
	var out []bound.NodeType
	for _, m := range b.snapshot.PoolCatalogs {
		for row := range m.Offerings.All() {
			price := m.Catalog.Offerings[row].Price
			if price <= 0 {
				continue
			}
			for i, g := range b.order {
				admitted := g.weight == anyWeight || g.weight == m.Pool.Weight
				groups[i].On = append(groups[i].On, admitted && m.Compatible(g.class.PodShape).All.Has(row))
			}
			t := bound.NodeType{Room: b.vector(&m.Allocatable[row]), Price: price.USD()}
			for _, d := range b.apart {
				t.Room[d] = 1
			}
			out = append(out, t)
		}
	}
	return out
}

// joinExclusive finds sets of groups each two of which exclude each other. A group that excludes no other
// is in no set.
func (b *boundedPods) joinExclusive(groups []bound.Group) {
	var sets [][]int
	for i, g := range b.order {
		at := slices.IndexFunc(sets, func(set []int) bool {
			return !slices.ContainsFunc(set, func(o int) bool { return !exclude(g.class, b.order[o].class) })
		})
		if at < 0 {
			at, sets = len(sets), append(sets, nil)
		}
		sets[at] = append(sets[at], i)
	}
	sets = slices.DeleteFunc(sets, func(set []int) bool { return len(set) == 1 })
	for i := range groups {
		groups[i].Exclusive = 1 + slices.IndexFunc(sets, func(set []int) bool { return slices.Contains(set, i) })
	}
}

func (b *boundedPods) vector(of *quantity.Vector) []float64 {
	out := make([]float64, quantity.Dims+len(b.apart))
	for d, n := range of {
		out[d] = float64(max(0, n))
	}
	return out
}
