package disruption

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

func (c *Controller) nodeOf(m kube.Machine, now time.Time) disrupt.Node {
	n := kube.DisruptionNode(m, c.Mirror.PodBudgets(), kube.SoftExpiry(c.Mirror.Pool(m.World.Pool)), now)
	n.Spare = c.Buffers.Holds(n.Key)
	return n
}

// poolOf reads a NodePool, and tells its owner what cannot be read.
func (c *Controller) poolOf(p *karpv1.NodePool, now time.Time) disrupt.Pool {
	pool, problems := kube.DisruptionPool(p, now)
	for _, problem := range problems {
		c.Events.Publish(events.Event{About: p, Warning: true, Reason: "InvalidDisruptionSettings", Every: repeat,
			Message: fmt.Sprintf("The NodePool's disruption settings cannot be read: %v", problem)})
	}
	return pool
}
