// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// Surger knows which pods leave a drained node by a rolling restart of their Deployment.
type Surger interface {
	CanSurge(context.Context, *corev1.Pod) (bool, error)
}

const (
	// surgerAnswerHolds is how long an answer about a pod is not asked for again.
	surgerAnswerHolds = time.Minute
	// maxSurgerQuestions bounds the questions of a round: each is up to three reads past the
	// cache. A pod that was not asked about yet counts as held by its PodDisruptionBudget.
	maxSurgerQuestions = 10
)

// surgingPods are the pods that no PodDisruptionBudget would ever allow to evict and that surge
// instead.
type surgingPods struct {
	surger Surger // nil when no pod surges
	mirror *state.Mirror
	log    logr.Logger

	answers map[types.UID]surgerAnswer
	on      map[string]bool // nodes with pods that surge, by key
}

type surgerAnswer struct {
	surges bool
	at     time.Time
}

// refresh finds out which of the pods that PodDisruptionBudgets hold surge, and reports whether
// that changed.
func (s *surgingPods) refresh(ctx context.Context, v *view) bool {
	if s.surger == nil {
		return false
	}
	answers, on := map[types.UID]surgerAnswer{}, map[string]bool{}
	surging := map[types.UID]bool{}
	asked := 0
	for i := range v.nodes {
		n := &v.nodes[i]
		if !s.on[n.Key] && !heldByPDB(n) {
			continue
		}
		for _, p := range s.candidates(v.byClaim[n.Key].Pods) {
			a, ok := s.answers[p.UID]
			if (!ok || v.now.Sub(a.at) >= surgerAnswerHolds) && asked < maxSurgerQuestions {
				asked++
				a, ok = surgerAnswer{s.surges(ctx, p), v.now}, true
			}
			if ok {
				answers[p.UID] = a
			}
			if a.surges {
				surging[p.UID], on[n.Key] = true, true
			}
		}
	}
	s.answers, s.on = answers, on
	return s.mirror.SetSurging(surging)
}

func heldByPDB(n *disrupt.Node) bool {
	return slices.ContainsFunc(n.Blocks, func(b disrupt.Block) bool {
		return b.Because == disrupt.PodDisruptionBudget || b.Because == disrupt.MultiplePodDisruptionBudgets
	})
}

// candidates picks the pods that PodDisruptionBudgets hold and that may surge.
func (s *surgingPods) candidates(pods []*corev1.Pod) (out []*corev1.Pod) {
	pdbs := s.mirror.PDBs()
	for _, p := range pods {
		if kube.EvictableUnlessProtected(p) && pdbs.MaySurge(p) {
			out = append(out, p)
		}
	}
	return out
}

// leaves reports whether the pod leaves its node by a surge, by PodDisruptionBudgets that were just
// read.
func (s *surgingPods) leaves(ctx context.Context, p *corev1.Pod, pdbs *state.PDBs) bool {
	return s.surger != nil && pdbs.MaySurge(p) && s.surges(ctx, p)
}

func (s *surgingPods) surges(ctx context.Context, p *corev1.Pod) bool {
	surges, err := s.surger.CanSurge(ctx, p)
	if err != nil {
		s.log.Error(err, "cannot find out whether the pod surges, it counts as held by its budget", "pod", p.Namespace+"/"+p.Name)
	}
	return surges
}
