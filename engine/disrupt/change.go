package disrupt

import "github.com/karve-dev/karve/engine/cluster"

// change is one thing that was done to the floor, so that it can be undone and done again.
type change struct {
	deed
	at  int         // the seat, unless it was bought:
	pod *evictedPod // who sat down there

	open, left bool // how the seat was before everybody left it

	market *cluster.PoolCatalog // what was bought
	row    int

	tally     *domainCount // what was counted
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
func (f *schedSim) back(to int) {
	for len(f.log) > to {
		last := len(f.log) - 1
		f.undo(&f.log[last])
		f.log = f.log[:last]
	}
}

func (f *schedSim) undo(c *change) {
	switch c.deed {
	case leaving:
		s := &f.nodes[c.at]
		if s.open, s.left = c.open, c.left; s.open {
			s.group.put(s.slot(c.at))
		}
	case sitting:
		s := &f.nodes[c.at]
		s.arrived = s.arrived[:len(s.arrived)-1]
		c.pod.seats = c.pod.seats[:len(c.pod.seats)-1]
		f.fill(c.at, c.pod.PodClass, 1)
	case buying:
		f.remove()
	case counting:
		c.tally.pods[c.value] -= c.by
	}
}

// again does what was done once more, on a floor that is as it was before.
func (f *schedSim) again(changes []change) {
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
func (f *schedSim) keep() { f.log = f.log[:0] }
