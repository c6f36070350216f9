package disruption

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// stampEvery bounds how often a busy node's last pod event is written down.
const stampEvery = 10 * time.Second

// stamp keeps what others read up to date: when a pod last came or went, and whether
// the node has been quiet for long enough.
func (c *Controller) stamp(ctx context.Context, s *sight) error {
	var group panics.Group
	group.SetLimit(writers)
	for i := range s.nodes {
		n := &s.nodes[i]
		pool, ok := s.pools[n.Pool]
		machine := s.machines[n.Key]
		if !ok || leaving(machine) {
			continue
		}
		_, quiet := disrupt.Quiet(n, &pool, s.now)
		at := dueStamp(machine, s.now)
		if at.IsZero() && quiet == kube.ConditionTrue(machine.Claim, karpv1.ConditionTypeConsolidatable) {
			continue
		}
		group.Go(func() error {
			claim := machine.Claim.DeepCopy()
			note(claim, at, quiet)
			return write.Calm(write.Status(ctx, c.Client, claim, machine.Claim)) // the next round sees the newer claim
		})
	}
	return group.Wait()
}

// dueStamp is the pod event to write down, zero when there is none to be written yet.
func dueStamp(m kube.Machine, now time.Time) time.Time {
	written := m.Claim.Status.LastPodEventTime.Time
	seen := m.Activity.Truncate(time.Second) // all the API keeps
	if !seen.After(written) || seen.Sub(written) < stampEvery && now.Sub(seen) < stampEvery {
		return time.Time{}
	}
	return seen
}

func note(claim *karpv1.NodeClaim, stamp time.Time, quiet bool) {
	if !stamp.IsZero() {
		claim.Status.LastPodEventTime = metav1.NewTime(stamp)
	}
	if quiet {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsolidatable)
		return
	}
	_ = claim.StatusConditions().Clear(karpv1.ConditionTypeConsolidatable) // fails for dependents only
}
