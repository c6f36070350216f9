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
	// shelves hold the open seats by how empty they are, the emptiest last.
	shelves [shelves][]int32
	// perCPU and perMemory are the smallest of any seat: the least by which a pod fills one.
	perCPU, perMemory float64

	doors    map[*world.Shape]*[]verdict // by seat
	manners  map[*world.Class]*manners
	cheapest map[*world.Shape]deal
	log      []change
}

// shelves is how finely seats are told apart by how empty they are.
const shelves = 256

// seat is a node, or a machine to be bought.
type seat struct {
	host   *world.Host   // nil for what is to be bought:
	market *world.Market // a row of this
	row    int

	free quantity.Vector
	// perCPU and perMemory are which share of the machine a base unit of each is.
	perCPU, perMemory float64
	crew              []world.Member // who runs there to begin with
	guests            []*world.Class // who came
	open              bool
	shelf, place      int
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
	f := &floor{w: w, of: make(map[*world.Host]int, len(w.Hosts)), perCPU: math.Inf(1), perMemory: math.Inf(1),
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
	s.perCPU, s.perMemory = 1/float64(max(1, cpu)), 1/float64(max(1, memory))
	f.perCPU, f.perMemory = min(f.perCPU, s.perCPU), min(f.perMemory, s.perMemory)
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

// emptiness is which share of the seat is free: cpu and memory together, up to 2.
func (s *seat) emptiness() float64 {
	return float64(s.free[quantity.CPU])*s.perCPU + float64(s.free[quantity.Memory])*s.perMemory
}

// left is how empty the seat is with one more pod.
func (s *seat) left(request *quantity.Vector) float64 {
	return float64(s.free[quantity.CPU]-request[quantity.CPU])*s.perCPU + float64(s.free[quantity.Memory]-request[quantity.Memory])*s.perMemory
}

func (s *seat) holds(c *world.Class) bool {
	for _, d := range c.Dims {
		if s.free[d] < c.Requests[d] {
			return false
		}
	}
	return true
}

// unshelve opens the seat: it is put onto the shelf where it belongs.
func (f *floor) unshelve(at int) {
	s := &f.seats[at]
	s.open = true
	s.shelf = max(0, min(shelves-1, int(s.emptiness()*(shelves/2))))
	s.place = len(f.shelves[s.shelf])
	f.shelves[s.shelf] = append(f.shelves[s.shelf], int32(at))
}

// shelve takes the seat off its shelf.
func (f *floor) shelve(at int) {
	s := &f.seats[at]
	shelf := f.shelves[s.shelf]
	last := shelf[len(shelf)-1]
	shelf[s.place] = last
	f.seats[last].place = s.place
	f.shelves[s.shelf] = shelf[:len(shelf)-1]
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
		f.shelve(at)
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
	fills := float64(p.Requests[quantity.CPU])*f.perCPU + float64(p.Requests[quantity.Memory])*f.perMemory
	for shelf := shelves - 1; shelf >= 0; shelf-- {
		if emptiest := float64(shelf+1) / (shelves / 2); shelf < shelves-1 && emptiest-fills < most {
			break
		}
		for _, at := range f.shelves[shelf] {
			s := &f.seats[at]
			left := s.left(&p.Requests)
			if left < most || left == most && int(at) > found {
				continue
			}
			if s.holds(p.Class) && f.admit(p, int(at)) {
				found, most = int(at), left
			}
		}
	}
	return found
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
