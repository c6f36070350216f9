package disrupt

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
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
	// sizes are the machines that there are, by what they have for pods.
	sizes  []*size
	sizeOf map[[2]int64]*size

	doors    map[*world.Shape]*[]verdict // by seat
	manners  map[*world.Class]*manners
	cheapest map[*world.Shape]deal
	log      []change
}

// shelves is how finely seats are told apart by how empty they are.
const shelves = 256

// size is all seats of as much cpu and memory: a pod fills the same share of each, so that
// kube-scheduler likes the emptiest best.
type size struct {
	// perCPU and perMemory are which share of the machine a base unit of each is.
	perCPU, perMemory float64
	// shelves hold the open seats by how empty they are; none above top has any.
	shelves [shelves][]stand
	top     int
}

// stand is where a seat is found, how empty it is, and what most pods lack if they have no room
// there: most seats are passed over without a look at them.
type stand struct {
	at          int
	empty       float64
	cpu, memory int64
}

// seat is a node, or a machine to be bought.
type seat struct {
	host   *world.Host   // nil for what is to be bought:
	market *world.Market // a row of this
	row    int

	free         quantity.Vector
	size         *size
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

// verdict is whether a seat lets pods of a shape in, once somebody asked.
type verdict byte

const (
	admitted verdict = 1 + iota
	barred
)

func newFloor(w *world.World) *floor {
	f := &floor{w: w, of: make(map[*world.Host]int, len(w.Hosts)), sizeOf: map[[2]int64]*size{},
		doors: map[*world.Shape]*[]verdict{}, manners: map[*world.Class]*manners{}, cheapest: map[*world.Shape]deal{}}
	f.seats = make([]seat, 0, len(w.Hosts)+len(w.Hosts)/8)
	for _, h := range w.Hosts {
		if h.Initialized && h.Index >= 0 {
			f.of[h] = len(f.seats)
			f.add(seat{host: h, free: h.Free, crew: h.Crew()}, h.Allocatable[quantity.NameCPU], h.Allocatable[quantity.NameMemory])
		}
	}
	return f
}

// add opens a seat of that size.
func (f *floor) add(s seat, cpu, memory int64) int {
	s.size = f.sizeFor(cpu, memory)
	f.seats = append(f.seats, s)
	at := len(f.seats) - 1
	f.unshelve(at)
	return at
}

// buy opens a seat for a machine of that row.
func (f *floor) buy(m *world.Market, row int) int {
	size := m.Catalog.Room[m.Catalog.Rows[row].Type]
	return f.add(seat{market: m, row: row, free: m.Room[row]}, size[quantity.CPU], size[quantity.Memory])
}

func (f *floor) sizeFor(cpu, memory int64) *size {
	key := [2]int64{cpu, memory}
	known := f.sizeOf[key]
	if known == nil {
		known = &size{perCPU: 1 / float64(max(1, cpu)), perMemory: 1 / float64(max(1, memory))}
		f.sizeOf[key] = known
		f.sizes = append(f.sizes, known)
	}
	return known
}

// share is which share of a seat of the size those are: cpu and memory together, up to 2.
func (z *size) share(v *quantity.Vector) float64 {
	return float64(v[quantity.CPU])*z.perCPU + float64(v[quantity.Memory])*z.perMemory
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
	z := s.size
	empty := z.share(&s.free)
	s.shelf = max(0, min(shelves-1, int(empty*(shelves/2))))
	s.place = len(z.shelves[s.shelf])
	z.shelves[s.shelf] = append(z.shelves[s.shelf], stand{at, empty, s.free[quantity.CPU], s.free[quantity.Memory]})
	z.top = max(z.top, s.shelf)
}

// shelve takes the seat off its shelf.
func (f *floor) shelve(at int) {
	s := &f.seats[at]
	shelf := s.size.shelves[s.shelf]
	last := shelf[len(shelf)-1]
	shelf[s.place] = last
	f.seats[last.at].place = s.place
	s.size.shelves[s.shelf] = shelf[:len(shelf)-1]
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
	for _, door := range f.doors {
		*door = (*door)[:min(len(*door), seats)]
	}
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
	found, most := -1, math.Inf(-1)
	for _, z := range f.sizes {
		found, most = f.emptiest(z, p, found, most)
	}
	return found
}

// emptiest finds the emptiest seat of the size that takes the pod, if kube-scheduler likes it
// better than the one found so far, of which most would be left.
func (f *floor) emptiest(z *size, p *evicted, found int, most float64) (int, float64) {
	for z.top > 0 && len(z.shelves[z.top]) == 0 {
		z.top--
	}
	fills, cpu, memory := z.share(&p.Requests), p.Requests[quantity.CPU], p.Requests[quantity.Memory]
	for shelf := z.top; shelf >= 0; shelf-- {
		emptiest := float64(shelf+1) / (shelves / 2)
		if shelf < shelves-1 && (emptiest-fills < most || emptiest < fills) {
			break
		}
		for _, stand := range z.shelves[shelf] {
			left := stand.empty - fills
			if stand.cpu < cpu || stand.memory < memory || left < most || left == most && stand.at > found {
				continue
			}
			if f.seats[stand.at].holds(p.Class) && f.admit(p, stand.at) {
				found, most = stand.at, left
			}
		}
	}
	return found, most
}

// admit reports whether the pod may sit there, whatever the room.
func (f *floor) admit(p *evicted, at int) bool {
	return f.lets(p, at) && (p.easy || f.suits(p, at))
}

// lets is what labels and taints say.
func (f *floor) lets(p *evicted, at int) bool {
	if at >= len(*p.door) {
		*p.door = append(*p.door, make([]verdict, len(f.seats)-len(*p.door))...)
	}
	known := &(*p.door)[at]
	if *known == 0 {
		*known = barred
		if f.seats[at].lets(p.Shape) {
			*known = admitted
		}
	}
	return *known == admitted
}

func (s *seat) lets(shape *world.Shape) bool {
	if s.host != nil {
		return s.host.Accepts(shape)
	}
	return slices.ContainsFunc(s.market.Fit(shape).Admitted, func(rows bitset.Set) bool { return rows.Has(s.row) })
}

// doorOf is what is known of who lets pods of the shape in.
func (f *floor) doorOf(shape *world.Shape) *[]verdict {
	door := f.doors[shape]
	if door == nil {
		door = new([]verdict)
		f.doors[shape] = door
	}
	return door
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
