package disruption

import (
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// count adds a node that was asked to go to what its move disturbs and saves. A move that
// an earlier process decided saves as much, but nobody knows how much that is.
func (c *Controller) count(m *move, machine kube.Machine) {
	pool, labels := machine.World.Pool, machine.Claim.Labels
	policy := ""
	if m.patient() {
		policy = c.policyOf(pool)
	}
	c.Metrics.PodsDisrupted.WithLabelValues(m.reason(), pool, labels[karpv1.CapacityTypeLabelKey], policy, termination(machine.Claim)).Add(movable(machine))
	if m.patient() && m.Before > 0 {
		share := 1 - m.After.USD()/m.Before.USD()
		c.Metrics.ConsolidationSaved.WithLabelValues(pool).Add(max(0, share*machine.World.Price.USD()))
	}
}

func movable(machine kube.Machine) float64 {
	n, now := 0.0, time.Now()
	for _, p := range machine.Pods {
		if kube.Movable(p, now) {
			n++
		}
	}
	return n
}

// termination is how the claim's terminationGracePeriod has it end, in Karpenter's words.
func termination(claim *karpv1.NodeClaim) string {
	switch grace := claim.Spec.TerminationGracePeriod; {
	case grace == nil:
		return "graceful"
	case grace.Duration > 0:
		return "eventual"
	}
	return "forceful"
}

// eligible shows how many nodes may go for each cause, as far as they and their pools have
// a say: whether that would do any good is another question. Those that are about to go
// are among them.
func (c *Controller) eligible(s *sight) {
	d := c.cluster(s, nil)
	pools := map[string]*disrupt.Pool{}
	for i := range d.Pools {
		pools[d.Pools[i].Name] = &d.Pools[i]
	}
	nodes := map[disrupt.Cause]int{}
	for _, m := range c.moves {
		nodes[m.Cause] += len(m.Nodes)
	}
	for _, cause := range []disrupt.Cause{disrupt.Empty, disrupt.Drifted, disrupt.Expired, disrupt.Underutilized} {
		for i := range s.nodes {
			n := &s.nodes[i]
			if _, may := disrupt.Eligible(n, pools[n.Pool], cause, &d); may {
				nodes[cause]++
			}
		}
		c.Metrics.DisruptionEligible.WithLabelValues(strings.ToLower(string(cause))).Set(float64(nodes[cause]))
	}
}
