package disrupt

import "github.com/karve-dev/karve/engine/cluster"

// change is one thing that was done to the floor, so that it can be undone and done again.
type change struct {
	deed
	at  int      // the seat, unless it was bought:
	pod *evicted // who sat down there

	open, left bool // how the seat was before everybody left it

	market *cluster.PoolCatalog // what was bought
	row    int

	tally     *tally // what was counted
	value, by int
}

// deed is what a change did.
type deed uint8

const (
	leaving deed = iota
	sitting
	buying
	counting
)

// back undoes what was done since the log was that long.
func (f *floor) back(to int) {
	for len(f.log) > to {
		last := len(f.log) - 1
		f.undo(&f.log[last])
		f.log = f.log[:last]
	}
}

func (f *floor) undo(c *change) {
	switch c.deed {
	case leaving:
		s := &f.seats[c.at]
		if s.open, s.left = c.open, c.left; s.open {
			s.block.put(s.stand(c.at))
		}
	case sitting:
		s := &f.seats[c.at]
		s.guests = s.guests[:len(s.guests)-1]
		c.pod.seats = c.pod.seats[:len(c.pod.seats)-1]
		f.fill(c.at, c.pod.PodClass, 1)
	case buying:
		f.remove()
	case counting:
		c.tally.pods[c.value] -= c.by
	}
}

// again does what was done once more, on a floor that is as it was before.
func (f *floor) again(changes []change) {
	for i := range changes {
		switch c := &changes[i]; c.deed {
		case leaving:
			f.leave(c.at)
		case sitting:
			f.seat(c.pod, c.at)
		case buying:
			f.buy(c.market, c.row)
		case counting:
			f.recount(c.tally, c.value, c.by)
		}
	}
}

// keep says that what was done stays.
func (f *floor) keep() { f.log = f.log[:0] }
