// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/bound"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// LaunchBound is a price that no launches can beat for the pods that the plan launches nodes for, each from
// NodePools of the weight that the plan uses for the pod. It is the higher of the plan's own bound and that
// of package bound, which knows that pods and nodes are whole, and which pods keep apart on nodes. Both
// ignore preferences, and rules on domains other than nodes. It is an error when the plan is not for s.
func LaunchBound(s *scenario.Scenario, plan schedule.Plan) (float64, error) {
	c := New(s)
	for _, p := range s.Pending {
		c.Set(p)
	}
	l := launchGroups{snapshot: c.Builder.Snapshot(), pods: map[launchGroup]int{}, limits: map[nodeLimit]int{}}
	if err := l.collect(plan); err != nil {
		return 0, err
	}
	r, err := bound.Least(l.problem())
	return max(r.Price, plan.LowerBound.USD()), err
}

// launchGroups are the pods of a plan's launches as package bound reads them.
type launchGroups struct {
	snapshot *cluster.Snapshot
	pods     map[launchGroup]int
	order    []launchGroup
	limits   map[nodeLimit]int // by how many pods nodes take: resources beside those of the snapshot
}

// launchGroup is pods of a class on nodes of pools of a weight.
type launchGroup struct {
	class  *cluster.PodClass
	weight int32
}

// nodeLimit is a required rule of pods on nodes: at most so many of those that a selector selects.
type nodeLimit struct {
	selector, most int
}

func (l *launchGroups) collect(plan schedule.Plan) error {
	classes := map[string]*cluster.PodClass{}
	for _, class := range l.snapshot.Classes {
		for _, p := range class.PodsToPlace {
			classes[p.UID] = class
		}
	}
	for i := range plan.Launches {
		pool := l.snapshot.PoolCatalogOf(plan.Launches[i].Pool)
		for _, p := range plan.Launches[i].Pods {
			if classes[p.UID] == nil || pool == nil {
				return fmt.Errorf("the plan launches a node of NodePool %s for pod %s/%s, and one of them is not known", plan.Launches[i].Pool, p.Namespace, p.Name)
			}
			l.add(launchGroup{classes[p.UID], pool.Pool.Weight})
		}
	}
	return nil
}

func (l *launchGroups) add(g launchGroup) {
	if l.pods[g] == 0 {
		l.order = append(l.order, g)
		for _, limit := range nodeLimits(g.class) {
			if _, known := l.limits[limit]; !known {
				l.limits[limit] = quantity.Dims + len(l.limits)
			}
		}
	}
	l.pods[g]++
}

// nodeLimits are the rules by which pods of the class keep apart from each other.
func nodeLimits(class *cluster.PodClass) []nodeLimit {
	var out []nodeLimit
	for _, t := range class.AntiAffinity {
		if repels(&t, class) {
			out = append(out, nodeLimit{t.Selector.ID(), 1})
		}
	}
	for _, t := range class.Spreads {
		if !t.Soft && t.Key.Name == corev1.LabelHostname && t.Selector.Selects(class) {
			out = append(out, nodeLimit{t.Selector.ID(), t.MaxSkew})
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

func (l *launchGroups) problem() ([]bound.Kind, []bound.Group) {
	groups := make([]bound.Group, len(l.order))
	for i, g := range l.order {
		groups[i] = bound.Group{Pods: l.pods[g], Requests: l.vector(&g.class.Requests)}
		for _, limit := range nodeLimits(g.class) {
			groups[i].Requests[l.limits[limit]] = 1
		}
	}
	l.joinExclusive(groups)
	var kinds []bound.Kind
	for _, m := range l.snapshot.PoolCatalogs {
		for row := range m.Offerings.All() {
			price := m.Catalog.Offerings[row].Price
			if price <= 0 {
				continue
			}
			for i, g := range l.order {
				groups[i].On = append(groups[i].On, g.weight == m.Pool.Weight && m.Compatible(g.class.PodShape).All.Has(row))
			}
			k := bound.Kind{Room: l.vector(&m.Allocatable[row]), Price: price.USD()}
			for limit, at := range l.limits {
				k.Room[at] = float64(limit.most)
			}
			kinds = append(kinds, k)
		}
	}
	return kinds, groups
}

// joinExclusive finds sets of groups each two of which exclude each other. A group that excludes no other
// is in no set.
func (l *launchGroups) joinExclusive(groups []bound.Group) {
	var sets [][]int
	for i, g := range l.order {
		at := slices.IndexFunc(sets, func(set []int) bool {
			return !slices.ContainsFunc(set, func(o int) bool { return !exclude(g.class, l.order[o].class) })
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

func (l *launchGroups) vector(of *quantity.Vector) []float64 {
	out := make([]float64, quantity.Dims+len(l.limits))
	for d, n := range of {
		out[d] = float64(max(0, n))
	}
	return out
}
