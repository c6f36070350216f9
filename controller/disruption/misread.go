package disruption

import (
	"fmt"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/kube"
)

// tellMisread tells the owners of pods that ask to be left alone in words nobody knows:
// they believe themselves safe.
func (c *Controller) tellMisread() {
	for _, p := range c.Mirror.Misread() {
		c.Events.Publish(events.Event{About: p, Warning: true, Reason: "InvalidDoNotDisruptAnnotation", Every: repeat,
			Message: fmt.Sprintf("Invalid karpenter.sh/do-not-disrupt annotation: %v, ignoring annotation", kube.InvalidDoNotDisrupt(p))})
	}
}
