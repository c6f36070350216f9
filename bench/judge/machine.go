package judge

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// machine writes the node that a launch becomes when it is bought as that choice.
// It has the labels of the type, then those of the offer, the pool and the launch;
// the choice has the last word.
func (o *objects) machine(name string, l schedule.Launch, c offering.Ref) (*corev1.Node, error) {
	pool := slices.IndexFunc(o.script.Pools, func(p cluster.NodePool) bool { return p.Name == l.Pool })
	if pool < 0 {
		return nil, fmt.Errorf("there is no pool %s", l.Pool)
	}
	t, sold := o.onSale(c)
	if sold == nil {
		return nil, fmt.Errorf("nobody sells %s in zone %s as %s", c.Type, c.Zone, c.CapacityType)
	}
	labels := map[string]string{}
	for _, from := range []map[string][]string{t.Labels, sold.Labels} {
		for key, values := range from {
			if len(values) > 0 {
				labels[key] = pick(key, values, l.Rules)
			}
		}
	}
	for _, from := range []map[string]string{o.script.Pools[pool].Labels, l.Labels} {
		for key, value := range from {
			labels[key] = value
		}
	}
	labels[cluster.LabelPool] = l.Pool
	labels[cluster.LabelInstanceType] = c.Type
	labels[cluster.LabelZone] = c.Zone
	labels[cluster.LabelCapacityType] = c.CapacityType
	labels[cluster.LabelHostname] = name
	return o.bare(name, labels, l.Taints, t.Capacity.Sub(t.Overhead)), nil
}

// onSale finds what a choice names: the first type of that name, and its offer,
// at the choice's price where several differ in nothing else.
func (o *objects) onSale(c offering.Ref) (*offering.InstanceType, *offering.Offering) {
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

// pick takes the value that the launch settles on: one that its rules name, else
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
