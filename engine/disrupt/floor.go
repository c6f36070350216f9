package disrupt

import (
	"math"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// floor is the cluster as kube-scheduler sees it: the nodes that take pods, those among them that the
// search keeps shut for reasons of its own, too, and the machines that its moves buy. It puts
// pods where kube-scheduler likes them best: where the largest share of cpu and memory is left.
// What else kube-scheduler weighs (balance, images, what pods prefer) is left out.
type floor struct {
	w     *world.World
	seats []seat
	of    map[*world.Host]int
	// asked are the labels by which pods tell nodes apart.
	asked   []*constraint.Key
	blocks  []*block
	blockOf map[likeness]*block

	doors    map[*world.Shape]*door
	manners  map[*world.Class]*manners
	cheapest map[*world.Shape]deal
	log      []change
}

// seat is a node, or a machine to be bought.
type seat struct {
	host         *world.Host // nil for what is to be bought
	free         quantity.Vector
	block        *block
	crew         []world.Member // who runs there to begin with
	guests       []*world.Class // who came
	open         bool
	shelf, place int
}

// change is a seat as it was.
type change struct {
	at  int
	was seat
}

func newFloor(w *world.World) *floor {
	f := &floor{w: w, of: make(map[*world.Host]int, len(w.Hosts)), asked: w.Asked(), blockOf: map[likeness]*block{},
		doors: map[*world.Shape]*door{}, manners: map[*world.Class]*manners{}, cheapest: map[*world.Shape]deal{}}
	f.seats = make([]seat, 0, len(w.Hosts)+len(w.Hosts)/8)
	for _, h := range w.Hosts {
		if h.Initialized && h.Index >= 0 {
			f.of[h] = f.add(seat{host: h, block: f.blockWith(h), free: h.Free, crew: h.Crew()})
		}
	}
	return f
}

// add opens a seat.
func (f *floor) add(s seat) int {
	f.seats = append(f.seats, s)
	at := len(f.seats) - 1
	f.unshelve(at)
	return at
}

// buy opens a seat for a machine of that row.
func (f *floor) buy(m *world.Market, row int) int {
	return f.add(seat{block: f.blockFor(m, row), free: m.Room[row]})
}

func (s *seat) holds(c *world.Class) bool {
	for _, d := range c.Dims {
		if s.free[d] < c.Requests[d] {
			return false
		}
	}
	return true
}

// unshelve opens the seat: it is put onto the shelf where it belongs. One that can have no
// further pod, however small, stays closed.
func (f *floor) unshelve(at int) {
	s := &f.seats[at]
	if s.free[quantity.Pods] < 1 {
		return
	}
	s.open = true
	s.shelf, s.place = s.block.put(at, &s.free)
}

// shelve takes the seat off its shelf.
func (f *floor) shelve(at int) {
	s := &f.seats[at]
	if moved := s.block.take(s.shelf, s.place); moved != at {
		f.seats[moved].place = s.place
	}
	s.open = false
}

// note remembers the seat as it is.
func (f *floor) note(at int) { f.log = append(f.log, change{at, f.seats[at]}) }

// back takes back what was changed since the log was that long, with so many seats.
func (f *floor) back(log, seats int) {
	for len(f.log) > log {
		c := f.log[len(f.log)-1]
		f.log = f.log[:len(f.log)-1]
		if f.seats[c.at].open {
			f.shelve(c.at)
		}
		f.seats[c.at] = c.was
		if c.was.open {
			f.unshelve(c.at)
		}
	}
	for at := len(f.seats) - 1; at >= seats; at-- {
		if f.seats[at].open {
			f.shelve(at)
		}
	}
	f.seats = f.seats[:seats]
}

// leave closes a seat.
func (f *floor) leave(at int) {
	if f.seats[at].open {
		f.note(at)
		f.shelve(at)
	}
}

// sit lets a pod of the class take its room.
func (f *floor) sit(c *world.Class, at int) {
	f.note(at)
	f.shelve(at)
	s := &f.seats[at]
	s.free = s.free.Sub(c.Requests)
	s.guests = append(s.guests, c) // what back restores is shorter, and then all there is
	f.unshelve(at)
}

// best is the seat that kube-scheduler likes best for the pod; -1 when none has room.
func (f *floor) best(p *evicted) int {
	found, most := f.planned(p)
	if p.fixed {
		return found
	}
	for _, b := range f.open(p.Shape) {
		if fills := b.share(&p.Requests); b.emptiest()-fills >= most && f.near(p, b) {
			found, most = f.emptiest(b, p, fills, found, most)
		}
	}
	return found
}

// planned is the seat that the plan gives the pod, if it can be had, and how much of it is left then.
func (f *floor) planned(p *evicted) (found int, most float64) {
	s := &f.seats[p.meant]
	if !s.open || s.free[quantity.CPU] < p.Requests[quantity.CPU] || s.free[quantity.Memory] < p.Requests[quantity.Memory] ||
		!s.holds(p.Class) || !s.lets(p.Shape) {
		return -1, math.Inf(-1)
	}
	return p.meant, s.block.share(&s.free) - s.block.share(&p.Requests)
}

// emptiest finds the emptiest seat of the block that takes the pod, if kube-scheduler likes it
// better than the one found so far, of which most would be left.
func (f *floor) emptiest(b *block, p *evicted, fills float64, found int, most float64) (int, float64) {
	cpu, memory := p.Requests[quantity.CPU], p.Requests[quantity.Memory]
	for shelf := b.top(); shelf >= 0; shelf = b.below(shelf) {
		if ceiling := ceilingOf(shelf); ceiling-fills < most || ceiling < fills {
			break
		}
		for i := range b.shelves[shelf] {
			stand := &b.shelves[shelf][i]
			left := stand.empty - fills
			if stand.cpu < cpu || stand.memory < memory || left < most || left == most && stand.at > found {
				continue
			}
			if f.seats[stand.at].takes(p) {
				found, most = stand.at, left
			}
		}
	}
	return found, most
}

// takes reports whether the pod has room there and everybody lets it in.
func (s *seat) takes(p *evicted) bool {
	return s.holds(p.Class) && (!p.Named || s.lets(p.Shape)) && s.suits(p)
}

// deal is the cheapest machine that a pod can be bought; without a market there is none.
type deal struct {
	market *world.Market
	row    int
	price  offer.Price
}

// dealFor is what would be bought for one pod that is alone: at most that is what it costs, as
// pods that are bought for together share machines.
func (f *floor) dealFor(shape *world.Shape) deal {
	d, known := f.cheapest[shape]
	if !known {
		d = f.findDeal(shape)
		f.cheapest[shape] = d
	}
	return d
}

// findDeal looks for it: heavier pools come first, as they do when something is bought.
func (f *floor) findDeal(shape *world.Shape) (best deal) {
	for _, m := range f.w.Markets {
		if best.market != nil && m.Pool.Weight < best.market.Pool.Weight {
			break
		}
		if m.Pool.Blocked != "" || m.Pool.Static || m.NodesLeft == 0 {
			continue
		}
		for row := range m.Fit(shape).All.All() {
			o := &m.Catalog.Rows[row]
			if o.Unavailable != "" {
				continue
			}
			if best.market == nil || o.Price < best.price {
				best = deal{m, row, o.Price}
			}
			break // rows are sorted by price
		}
	}
	return best
}
