package disrupt

import "github.com/karve-dev/karve/engine/cluster"

// change is one change of the simulated scheduler, kept so that it can be undone and redone.
type change struct {
	deed
	at  int         // the node, unless it is launched:
	pod *evictedPod // the pod that came there

	open, left bool // the node's state before its pods left

	market *cluster.PoolCatalog // the launched offering
	row    int

	tally     *domainCount // the domain count that changed
	value, by int
}

// deed is the kind of a change.
type deed uint8

const (
	leaving deed = iota
	sitting
	buying
	counting
)

// back undoes changes until the log is that long.
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

// again repeats the changes on a simulated scheduler that is as it was before them.
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

// keep makes the changes permanent.
func (f *schedSim) keep() { f.log = f.log[:0] }
