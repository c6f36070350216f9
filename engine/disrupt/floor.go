package disrupt

import (
	"math"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// floor is the cluster as kube-scheduler sees it: the nodes that take pods, those among them that the
// search keeps shut for reasons of its own, too, and the machines that its moves buy. It puts
// pods where kube-scheduler likes them best; see taste.
type floor struct {
	w     *cluster.Snapshot
	seats []seat
	of    map[*cluster.NodeInfo]int
	// asked are the labels by which pods tell nodes apart.
	asked   []*constraint.Key
	blocks  []*block
	blockOf map[likeness]*block

	doors    map[*cluster.PodShape]*door
	manners  map[*cluster.PodClass]*manners
	cheapest map[*cluster.PodShape]deal
	rows     map[like]deal // see rowOf
	tallies  []*tally
	crews    map[*cluster.PodClass][]crew // see crewsOf
	wanted   []int                        // by seat: for how many pods yet to come the plan keeps room there
	reach    []float64                    // scratch: see best
	party    party                        // scratch: see evict
	log      []change
}

// taste is what kube-scheduler likes of nodes, as far as that is followed here. It adds up many scores,
// some of which nobody here knows (images, balance, how many pods of the same owner are there).
// Most of all it likes the share of cpu and memory that is left once the pod is there, but where
// nodes differ in size the others may turn the scale towards the one that is emptiest before; and
// as its scores are whole numbers up to 100, many are equal, of which it takes any.
type taste struct {
	asItIs   bool // how empty a node is before the pod is there
	spiteful bool // of about equals it takes the one whose room others were to have
}

// about is how far apart seats that a scheduler in whole numbers thinks equal may be: one of 100, for cpu and
// memory together.
const about = 0.02

// seat is a node, or a machine to be bought.
type seat struct {
	host   *cluster.NodeInfo // nil for what is to be bought
	free   quantity.Vector
	block  *block
	crew   []cluster.ClassCount // who runs there to begin with
	guests []*cluster.PodClass  // who came
	empty  float64              // how empty it is, as its block has it; see block.share
	open   bool
	left   bool // by everybody
}

func newFloor(w *cluster.Snapshot) *floor {
	f := &floor{w: w, of: make(map[*cluster.NodeInfo]int, len(w.Nodes)), asked: w.LabelsUsed(), blockOf: map[likeness]*block{},
		doors: map[*cluster.PodShape]*door{}, manners: map[*cluster.PodClass]*manners{}, cheapest: map[*cluster.PodShape]deal{}, rows: map[like]deal{}}
	f.seats = make([]seat, 0, len(w.Nodes)+len(w.Nodes)/8)
	for _, h := range w.Nodes {
		if h.Initialized && h.Index >= 0 {
			f.of[h] = f.add(seat{host: h, block: f.blockWith(h), free: h.Free, crew: h.PodsByClass()})
		}
	}
	return f
}

// add opens a seat. One that can have no further pod, however small, stays closed.
func (f *floor) add(s seat) int {
	at := len(f.seats)
	s.empty = s.block.share(&s.free)
	s.open = s.roomy()
	if f.seats = append(f.seats, s); s.open {
		s.block.put(s.stand(at))
	}
	if len(f.wanted) < len(f.seats) {
		f.wanted = append(f.wanted, 0)
	}
	if s.block.seats++; s.block.seats == 1 {
		f.appear(s.block, 1)
	}
	return at
}

// remove takes back the seat that was opened last.
func (f *floor) remove() {
	at := len(f.seats) - 1
	s := &f.seats[at]
	if s.open {
		s.block.take(s.stand(at))
	}
	if s.block.seats--; s.block.seats == 0 {
		f.appear(s.block, -1)
	}
	f.seats = f.seats[:at]
}

// buy opens a seat for a machine of that row.
func (f *floor) buy(m *cluster.PoolCatalog, row int) int {
	f.log = append(f.log, change{deed: buying, market: m, row: row})
	return f.add(seat{block: f.blockFor(m, row), free: m.Allocatable[row]})
}

// roomy reports whether the seat can have a further pod, however small.
func (s *seat) roomy() bool { return s.free[quantity.Pods] >= 1 }

// stand is the seat as its block lists it.
func (s *seat) stand(at int) stand {
	return stand{at, s.empty, s.free[quantity.CPU], s.free[quantity.Memory]}
}

func (s *seat) holds(c *cluster.PodClass) bool {
	for _, d := range c.Dims {
		if s.free[d] < c.Requests[d] {
			return false
		}
	}
	return true
}

// leave closes a seat: who sat there looks for another.
func (f *floor) leave(at int) {
	s := &f.seats[at]
	f.log = append(f.log, change{deed: leaving, at: at, open: s.open, left: s.left})
	if s.open {
		s.block.take(s.stand(at))
	}
	s.open, s.left = false, true
}

// sit lets a pod take its room in a seat that is open.
func (f *floor) sit(p *evicted, at int) {
	f.seat(p, at)
	f.count(p, at, 1)
}

// seat is sit for a pod that nobody counts.
func (f *floor) seat(p *evicted, at int) {
	f.log = append(f.log, change{deed: sitting, at: at, pod: p})
	f.seats[at].guests = append(f.seats[at].guests, p.PodClass)
	p.seats = append(p.seats, at)
	f.fill(at, p.PodClass, -1)
}

// fill takes the pod's room off what is free in the seat, or gives it back.
func (f *floor) fill(at int, c *cluster.PodClass, by int64) {
	s := &f.seats[at]
	was := s.stand(at)
	for _, d := range c.Dims {
		s.free[d] += by * c.Requests[d]
	}
	s.empty = s.block.share(&s.free)
	now := s.roomy()
	switch {
	case s.open && now:
		s.block.move(was, s.stand(at))
	case s.open:
		s.block.take(was)
	case now:
		s.block.put(s.stand(at))
	}
	s.open = now
}

// best is the seat that kube-scheduler likes best for the pod; -1 when none has room. The block
// is looked at first whose emptiest seat it would like best: most others then have none as good.
func (f *floor) best(p *evicted, t taste) int {
	found, most := f.planned(p, t)
	if p.fixed {
		return found
	}
	blocks := f.open(p.door, p.PodShape)
	first, reach := -1, most
	f.reach = f.reach[:0]
	for i, b := range blocks {
		r := b.emptiest() - t.dislikes(b.share(&p.Requests)) + t.leeway()
		f.reach = append(f.reach, r)
		if r >= reach && f.near(p, b) && p.even(b) {
			first, reach = i, r
		}
	}
	if first < 0 {
		return found
	}
	found, most = f.emptiest(blocks[first], p, t, found, most)
	for i, b := range blocks {
		if f.reach[i] >= most && i != first && f.near(p, b) && p.even(b) {
			found, most = f.emptiest(b, p, t, found, most)
		}
	}
	return found
}

// dislikes is what of the share that the pod fills the taste takes off.
func (t taste) dislikes(fills float64) float64 {
	if t.asItIs {
		return 0
	}
	return fills
}

// leeway is how much better a seat may be liked for the harm that is done.
func (t taste) leeway() float64 {
	if t.spiteful {
		return about
	}
	return 0
}

// harm is how much better the seat is liked as others were to have its room.
func (f *floor) harm(at int, t taste) float64 {
	if t.spiteful && f.wanted[at] > 0 {
		return about
	}
	return 0
}

// planned is the seat that the plan gives the pod, if it can be had, and how well it is liked.
func (f *floor) planned(p *evicted, t taste) (found int, most float64) {
	s := &f.seats[p.meant]
	if !s.open || s.free[quantity.CPU] < p.Requests[quantity.CPU] || s.free[quantity.Memory] < p.Requests[quantity.Memory] ||
		!s.holds(p.PodClass) || !f.lets(s, p) || !p.fixed && !p.even(s.block) {
		return -1, math.Inf(-1)
	}
	return p.meant, s.block.share(&s.free) - t.dislikes(s.block.share(&p.Requests)) + f.harm(p.meant, t)
}

// emptiest finds the emptiest seat of the block that takes the pod, if kube-scheduler likes it
// better than the one found so far, which is liked so much.
func (f *floor) emptiest(b *block, p *evicted, t taste, found int, most float64) (int, float64) {
	cpu, memory := p.Requests[quantity.CPU], p.Requests[quantity.Memory]
	fills := b.share(&p.Requests)
	dislikes, leeway := t.dislikes(fills), t.leeway()
	for i := range b.stands {
		stand := &b.stands[i]
		if stand.empty-dislikes+leeway < most || stand.empty < fills {
			break
		}
		if stand.cpu < cpu || stand.memory < memory {
			continue
		}
		likes := stand.empty - dislikes + f.harm(stand.at, t)
		if likes < most || likes == most && !t.between(stand.at, found) {
			continue
		}
		if f.takes(&f.seats[stand.at], p) {
			found, most = stand.at, likes
		}
	}
	return found, most
}

// between reports which of two seats that are equal otherwise is taken: the first or the last.
func (t taste) between(at, found int) bool {
	if t.spiteful {
		return at >= found
	}
	return at <= found
}

// takes reports whether the pod has room there and everybody lets it in.
func (f *floor) takes(s *seat, p *evicted) bool {
	return s.holds(p.PodClass) && (!p.UsesHostname || f.lets(s, p)) && s.suits(p)
}

// deal is the cheapest machine that a pod can be bought; without a market there is none.
type deal struct {
	market *cluster.PoolCatalog
	row    int
	price  offering.Price
}

// dealFor is what would be bought for one pod that is alone: at most that is what it costs, as
// pods that are bought for together share machines.
func (f *floor) dealFor(p *evicted) deal {
	if len(p.within)+len(p.spreads) == 0 {
		return f.dealOf(p.PodShape)
	}
	return f.findDeal(p.PodShape, func(m *cluster.PoolCatalog, row int) bool { return f.suitable(p, m, row) })
}

// dealOf is the cheapest machine for pods of the shape, wherever it is.
func (f *floor) dealOf(shape *cluster.PodShape) deal {
	d, known := f.cheapest[shape]
	if !known {
		d = f.findDeal(shape, func(*cluster.PoolCatalog, int) bool { return true })
		f.cheapest[shape] = d
	}
	return d
}

// findDeal looks for it: heavier pools come first, as they do when something is bought.
func (f *floor) findDeal(shape *cluster.PodShape, suits func(m *cluster.PoolCatalog, row int) bool) (best deal) {
	for _, m := range f.w.Catalogs {
		if best.market != nil && m.Pool.Weight < best.market.Pool.Weight {
			break
		}
		if m.Pool.Blocked != "" || m.Pool.Static || m.NodesLeft == 0 {
			continue
		}
		for row := range m.Compatible(shape).All.All() { // sorted by price
			o := &m.Catalog.Offerings[row]
			if best.market != nil && o.Price >= best.price {
				break
			}
			if o.Unavailable == "" && suits(m, row) {
				best = deal{m, row, o.Price}
				break
			}
		}
	}
	return best
}

// suitable reports whether the machine would be where the pod must be, as far as that is known of
// what is not bought yet.
func (f *floor) suitable(p *evicted, m *cluster.PoolCatalog, row int) bool {
	meant := f.seats[p.meant].block
	for _, k := range p.within {
		v, known := valueOf(m, row, k)
		if want, ok := meant.value(k); known && ok && v != want {
			return false
		}
	}
	for i := range p.spreads {
		if v, known := valueOf(m, row, p.spreads[i].key); known && !p.spreads[i].lets(v) {
			return false
		}
	}
	return true
}
