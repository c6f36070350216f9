// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// measure updates all vectors to the positions of resources. Most changes concern one resource
// that keeps its position, such as the devices of a plugin that is added and removed: then only
// the shapes that request it are measured again.
func (b *Builder) measure() {
	changed, moved := b.resources.Settle()
	if moved {
		b.measureAll()
		return
	}
	if len(changed) > 0 {
		b.measureAsking(changed)
	}
}

func (b *Builder) measureAll() {
	for _, s := range b.shapes {
		s.measure(b.resources)
	}
	for _, c := range b.catalogs {
		c.compiled.Resize(b.resources)
	}
	for _, d := range b.daemons {
		d.measure(b.resources)
	}
	clear(b.indexes)
	b.daemonsChanged()
}

// measureAsking computes the vectors of requests for these resources again. The vectors of
// nodes and catalogs are still valid.
func (b *Builder) measureAsking(names []string) {
	shapes := map[*PodShape]bool{}
	for _, name := range names {
		maps.Copy(shapes, b.asking[name])
	}
	for s := range shapes {
		b.forgetShape(s)
		s.measure(b.resources)
	}
	for _, c := range b.classes {
		if shapes[c.PodShape] {
			for at := range c.on {
				b.touch(at)
			}
		}
	}
	for _, d := range b.daemons {
		if d.asksFor(names) {
			d.measure(b.resources)
			b.daemonsChanged()
		}
	}
}

// ask registers the resources that the shape requests.
func (b *Builder) ask(s *PodShape) {
	for name := range s.needs() {
		b.resources.Ask(name, 1)
		if b.asking[name] == nil {
			b.asking[name] = map[*PodShape]bool{}
		}
		b.asking[name][s] = true
	}
}

// unask undoes ask.
func (b *Builder) unask(s *PodShape) {
	for name := range s.needs() {
		b.resources.Ask(name, -1)
		if delete(b.asking[name], s); len(b.asking[name]) == 0 {
			delete(b.asking, name)
		}
	}
}

// needs are the extended resources that a pod of the shape takes of its node, including
// those of shared volumes.
func (s *PodShape) needs() quantity.Amounts {
	var out quantity.Amounts
	for name, n := range s.alone() {
		if n <= 0 || !quantity.IsExtended(name) {
			continue
		}
		if out == nil {
			out = quantity.Amounts{}
		}
		out[name] = n
	}
	return out
}

// alone is what one pod of the shape takes on an otherwise empty node.
func (s *PodShape) alone() quantity.Amounts {
	attach := quantity.Amounts{}
	for _, v := range s.volumes {
		if v.Driver != "" && v.Shared {
			attach[quantity.Attachable+v.Driver]++
		}
	}
	if len(attach) == 0 {
		return s.asks
	}
	return s.asks.Add(attach)
}

// measure computes the shape's vectors and drops the memos that depend on the old ones.
func (s *PodShape) measure(resources *quantity.Space) {
	s.Requests, s.Dims, s.Mounts = resources.Asked(s.asks), nil, nil
	for d, n := range s.Requests {
		if n > 0 {
			s.Dims = append(s.Dims, quantity.Dim(d))
		}
	}
	for _, v := range s.volumes {
		if v.Driver == "" || !v.Shared {
			continue
		}
		if d, limited := resources.Place(quantity.Attachable + v.Driver); limited {
			s.Mounts = append(s.Mounts, Mount{Volume: v.ID, Dim: d})
		}
	}
	s.fits, s.met, s.variants = map[*PoolCatalog]*Compatible{}, map[*PoolCatalog]bitset.Set{}, nil
}

// measure computes the vector of what the DaemonSet takes. It leaves out resources without a
// position (other resources took them all): no pod that requests them is placed either.
func (d *daemon) measure(resources *quantity.Space) {
	known := maps.Clone(d.Requests)
	maps.DeleteFunc(known, func(name string, _ int64) bool { return resources.Short(name) })
	d.requests = resources.Asked(known)
}

func (d *daemon) asksFor(names []string) bool {
	for _, name := range names {
		if d.Requests[name] > 0 {
			return true
		}
	}
	return false
}

// askFor counts the resources that a DaemonSet or the limits of a NodePool name.
func (b *Builder) askFor(a quantity.Amounts, by int) {
	for name := range a {
		b.resources.Ask(name, by)
	}
}

// offer counts the resources that a node offers.
func (b *Builder) offer(n *Node, by int) {
	b.resources.Offer(quantity.Nodes, n.Capacity, by)
	b.resources.Offer(quantity.Nodes, n.Allocatable, by)
}
