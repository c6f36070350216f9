// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// launchedNode writes the node that a launch becomes with that offering. It has the
// labels of the type, then those of the offering, the NodePool and the launch; zone,
// capacity type and instance type of the offering override them.
func (o *objects) launchedNode(name string, l schedule.Launch, c offering.Ref) (*corev1.Node, error) {
	pool := slices.IndexFunc(o.script.Pools, func(p cluster.NodePool) bool { return p.Name == l.Pool })
	if pool < 0 {
		return nil, fmt.Errorf("there is no NodePool %s", l.Pool)
	}
	t, offer := o.offeringOf(c)
	if offer == nil {
		return nil, fmt.Errorf("there is no offering of %s in zone %s as %s", c.Type, c.Zone, c.CapacityType)
	}
	labels := LaunchedLabels(t, offer, o.script.Pools[pool].Labels, l)
	labels[cluster.LabelHostname] = name
	return o.bare(name, labels, l.Taints, t.Capacity.Sub(t.Overhead)), nil
}

// LaunchedLabels are the labels of the node that a launch becomes with that offering, without the
// hostname; pool are those of its NodePool's template.
func LaunchedLabels(t *offering.InstanceType, o *offering.Offering, pool map[string]string, l schedule.Launch) map[string]string {
	labels := map[string]string{}
	for _, from := range []map[string][]string{t.Labels, o.Labels} {
		for key, values := range from {
			if len(values) > 0 {
				labels[key] = pick(key, values, l.Rules)
			}
		}
	}
	for _, from := range []map[string]string{pool, l.Labels} {
		maps.Copy(labels, from)
	}
	labels[cluster.LabelNodePool] = l.Pool
	labels[cluster.LabelInstanceType] = t.Name
	labels[cluster.LabelZone] = o.Zone
	labels[cluster.LabelCapacityType] = o.CapacityType
	return labels
}

// offeringOf finds the first instance type of that name and its offering, the one at
// that price where several differ in nothing else.
func (o *objects) offeringOf(c offering.Ref) (*offering.InstanceType, *offering.Offering) {
	i := slices.IndexFunc(o.script.Types, func(t offering.InstanceType) bool { return t.Name == c.Type })
	if i < 0 {
		return nil, nil
	}
	t := &o.script.Types[i]
	var found *offering.Offering
	for j := range t.Offerings {
		x := &t.Offerings[j]
		if x.Zone == c.Zone && x.CapacityType == c.CapacityType && (found == nil || found.Price != c.Price) {
			found = x
		}
	}
	return t, found
}

// pick returns the label value that the launch gets: one that its rules name, else
// the first that they do not exclude.
func pick(key string, values []string, rules []constraint.Rule) string {
	left := slices.Clone(values)
	for _, r := range rules {
		if r.Key != key {
			continue
		}
		switch r.Operator {
		case constraint.In:
			left = slices.DeleteFunc(left, func(v string) bool { return !slices.Contains(r.Values, v) })
		case constraint.NotIn:
			left = slices.DeleteFunc(left, func(v string) bool { return slices.Contains(r.Values, v) })
		}
	}
	if len(left) == 0 {
		return values[0] // the launch broke its own rules; the scheduler will say so
	}
	return left[0]
}
