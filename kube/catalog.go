// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// Catalog is the instance types of a node class, by name. A nil Catalog is empty.
type Catalog struct {
	Types  []offering.InstanceType
	byName map[string]*offering.InstanceType
}

// NewCatalog indexes types, which must not change afterwards.
func NewCatalog(types []offering.InstanceType) *Catalog {
	c := &Catalog{Types: types, byName: make(map[string]*offering.InstanceType, len(types))}
	for i := range types {
		c.byName[types[i].Name] = &types[i]
	}
	return c
}

// Find is the instance type of that name; nil when the catalog does not have it.
func (c *Catalog) Find(name string) *offering.InstanceType {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// price is the price of a node with these labels, zero when the catalog has no such offering.
func (c *Catalog) price(labels map[string]string) offering.Price {
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
func (c *Catalog) Complete(labels map[string]string) map[string]string {
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
