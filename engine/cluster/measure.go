package cluster

import (
	"maps"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// measure brings all vectors up to date with the positions of resources. Most changes
// concern one resource that keeps its position, such as the devices of a plugin that
// comes and goes: only the shapes that ask for it are looked at then.
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

// measureAsking makes the vectors of requests for the resources anew. The vectors of
// nodes and catalogs are right as they are.
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

// ask counts the resources that the shape asks for.
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

// needs are the extended resources that a pod of the shape takes of its machine, those
// of shared volumes included.
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

// alone is what one pod of the shape takes on a machine of its own.
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

// measure makes the shape's vectors and forgets what was found out with the old ones.
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

// measure makes the vector of what the DaemonSet takes. What it takes of resources for
// which there are no positions is not known to any pod that asks for them either.
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

// offer counts what a node offers.
func (b *Builder) offer(n *Node, by int) {
	b.resources.Offer(quantity.Nodes, n.Capacity, by)
	b.resources.Offer(quantity.Nodes, n.Allocatable, by)
}
