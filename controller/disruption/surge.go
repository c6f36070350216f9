package disruption

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// surger knows which pods leave a drained node by a rolling restart of their Deployment.
type surger interface {
	Serves(context.Context, *corev1.Pod) (bool, error)
}

const (
	// surgesHold is how long an answer about a pod is not asked for again.
	surgesHold = time.Minute
	// mostSurges bounds the questions of a round: each is up to three reads past the cache.
	// Who was not asked about yet counts as held.
	mostSurges = 10
)

// surges are what is known of pods that budgets would never let go. The zero surges are
// nothing.
type surges struct {
	known map[types.UID]answer
	on    map[string]bool // nodes with pods that surge, by key
}

type answer struct {
	serves bool
	at     time.Time
}

// surging finds out which of the pods that budgets hold leave their nodes without an
// eviction, and reports whether that is news.
func (c *Controller) surging(ctx context.Context, s *sight) bool {
	if c.Surges == nil {
		return false
	}
	next := surges{map[types.UID]answer{}, map[string]bool{}}
	serving := map[types.UID]bool{}
	asked := 0
	for i := range s.nodes {
		n := &s.nodes[i]
		if !c.surges.on[n.Key] && !budgeted(n) {
			continue
		}
		for _, p := range c.mayLeave(s.machines[n.Key].Pods) {
			a, ok := c.surges.known[p.UID]
			if (!ok || s.now.Sub(a.at) >= surgesHold) && asked < mostSurges {
				asked++
				a, ok = answer{c.serves(ctx, p), s.now}, true
			}
			if ok {
				next.known[p.UID] = a
			}
			if a.serves {
				serving[p.UID], next.on[n.Key] = true, true
			}
		}
	}
	c.surges = next
	return c.Mirror.Surging(serving)
}

// mayLeave picks the pods that budgets hold and that a surge may move.
func (c *Controller) mayLeave(pods []*corev1.Pod) (out []*corev1.Pod) {
	budgets := c.Mirror.PodBudgets()
	for _, p := range pods {
		if kube.Evictable(p) && budgets.MaySurge(p) {
			out = append(out, p)
		}
	}
	return out
}

func (c *Controller) serves(ctx context.Context, p *corev1.Pod) bool {
	serves, err := c.Surges.Serves(ctx, p)
	if err != nil {
		c.Log.Error(err, "cannot tell whether the pod surges, it counts as held", "pod", p.Namespace+"/"+p.Name)
	}
	return serves
}

func budgeted(n *disrupt.Node) bool {
	return slices.ContainsFunc(n.Blocks, func(b disrupt.Block) bool {
		return b.Because == disrupt.Budgeted || b.Because == disrupt.ManyBudgets
	})
}
