// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// InstanceTypes are the instance types of a node class, by name. Nil is empty.
type InstanceTypes struct {
	List   []offering.InstanceType
	byName map[string]*offering.InstanceType
}

// NewInstanceTypes indexes types, which must not change afterwards.
func NewInstanceTypes(types []offering.InstanceType) *InstanceTypes {
	c := &InstanceTypes{List: types, byName: make(map[string]*offering.InstanceType, len(types))}
	for i := range types {
		c.byName[types[i].Name] = &types[i]
	}
	return c
}

// Find is the instance type of that name; nil when there is none.
func (c *InstanceTypes) Find(name string) *offering.InstanceType {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// price is the price of a node with these labels, zero when there is no such offering.
func (c *InstanceTypes) price(labels map[string]string) offering.Price {
	t := c.Find(labels[cluster.LabelInstanceType])
	if t == nil {
		return 0
	}
	if o := find(t, labels[cluster.LabelZone], labels[cluster.LabelCapacityType]); o != nil {
		return o.Price
	}
	return 0
}

// Complete returns labels with the labels that a node of that instance type, zone and capacity
// type also has; labels itself when none is missing.
func (c *InstanceTypes) Complete(labels map[string]string) map[string]string {
	t := c.Find(labels[cluster.LabelInstanceType])
	if t == nil {
		return labels
	}
	out := labels
	add := func(more map[string][]string) {
		for key, values := range more {
			if _, ok := out[key]; ok || len(values) != 1 {
				continue
			}
			if len(out) == len(labels) {
				out = maps.Clone(labels)
			}
			out[key] = values[0]
		}
	}
	if o := find(t, labels[cluster.LabelZone], labels[cluster.LabelCapacityType]); o != nil {
		add(o.Labels)
	}
	add(t.Labels)
	return out
}
