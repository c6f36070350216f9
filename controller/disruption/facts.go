package disruption

import (
	"fmt"
	"time"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

func (c *Controller) nodeOf(m kube.Machine, now time.Time) disrupt.Node {
	n := kube.DisruptionNode(m, c.Mirror.PodBudgets(), kube.SoftExpiry(c.Mirror.Pool(m.World.Pool)), now)
	n.Spare = c.Buffers.Holds(n.Key)
	return n
}

// poolOf reads a NodePool, and tells its owner what cannot be read; false when there
// is none.
func (c *Controller) poolOf(name string, now time.Time) (disrupt.Pool, bool) {
	p := c.Mirror.Pool(name)
	if p == nil {
		return disrupt.Pool{}, false
	}
	pool, problems := kube.DisruptionPool(p, now)
	for _, problem := range problems {
		c.Events.Publish(events.Event{About: p, Warning: true, Reason: "InvalidDisruptionSettings", Every: repeat,
			Message: fmt.Sprintf("The NodePool's disruption settings cannot be read: %v", problem)})
	}
	return pool, true
}
