// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"math"

	"github.com/karve-dev/karve/engine/quantity"
)

// scorePolicy is how kube-scheduler scores nodes, as far as this simulation follows it.
// kube-scheduler adds up many scores, some of which are not known here (images, balance, how
// many pods of the same owner a node has). The highest weight is on the share of cpu and memory
// that is free once the pod is there. Where nodes differ in size, other scores may favour the
// node that is emptiest before. Scores are whole numbers up to 100, so many are equal;
// kube-scheduler then takes any of the nodes.
type scorePolicy struct {
	scoreBefore bool // score how empty a node is before the pod is there
	adversarial bool // of about equal nodes take one that is planned for other pods
}

// scoreTolerance is how far apart the scores of nodes may be that whole numbers make equal: one of
// 100, for cpu and memory together.
const scoreTolerance = 0.02

// deduction is how much the policy subtracts for the share of a node that the pod fills.
func (t scorePolicy) deduction(fills float64) float64 {
	if t.scoreBefore {
		return 0
	}
	return fills
}

// maxBonus is the highest bonus that a score can get.
func (t scorePolicy) maxBonus() float64 {
	if t.adversarial {
		return scoreTolerance
	}
	return 0
}

// bonus is added to the score of a node whose free capacity is planned for other pods.
func (t scorePolicy) bonus(n *node) float64 {
	if t.adversarial && n.expected > 0 {
		return scoreTolerance
	}
	return 0
}

// prefersNode decides which of two nodes with equal scores is taken: the first or the last.
func (t scorePolicy) prefersNode(at, found int) bool {
	if t.adversarial {
		return at >= found
	}
	return at <= found
}

// scheduler chooses nodes as kube-scheduler does: the one with the highest score that takes the
// pod.
type scheduler struct {
	nodes  *nodes
	groups *groups
}

// choice is the best node found so far, and its score; the node is -1 when there is none.
type choice struct {
	at    int
	score float64
}

// best is the node that kube-scheduler scores highest for the pod; -1 when none fits.
func (s *scheduler) best(p *leavingPod, policy scorePolicy) int {
	found := s.planned(p, policy)
	if p.onlyPlannedNode {
		return found.at
	}
	s.groups.extend(p.admission)
	planned, leeway := s.nodes.at(p.planned).group, policy.maxBonus()
	for i := range s.groups.ranks {
		r := &s.groups.ranks[i]
		if r.emptiest+leeway < found.score {
			break // no node of the groups that follow scores as high
		}
		if !p.admission.admits[r.number] || r.emptiest-policy.deduction(r.share(&p.Requests))+leeway < found.score {
			continue
		}
		if g := r.group; p.inPlannedDomains(planned, g) && p.spreadsAdmit(g) {
			found = s.bestIn(g, p, policy, found)
		}
	}
	return found.at
}

// planned is the node that the plan has for the pod, if the pod fits there.
func (s *scheduler) planned(p *leavingPod, policy scorePolicy) choice {
	n := s.nodes.at(p.planned)
	if n.state != open || n.free[quantity.CPU] < p.Requests[quantity.CPU] || n.free[quantity.Memory] < p.Requests[quantity.Memory] ||
		!n.fits(p.PodClass) || !s.groups.admits(n, p.podClass) || !p.onlyPlannedNode && !p.spreadsAdmit(n.group) {
		return choice{-1, math.Inf(-1)}
	}
	return choice{p.planned, n.group.share(&n.free) - policy.deduction(n.group.share(&p.Requests)) + policy.bonus(n)}
}

// bestIn finds the emptiest node of the group that takes the pod, if its score beats the node
// found so far.
func (s *scheduler) bestIn(g *nodeGroup, p *leavingPod, policy scorePolicy, found choice) choice {
	cpu, memory := p.Requests[quantity.CPU], p.Requests[quantity.Memory]
	fills := g.share(&p.Requests)
	deduction, leeway := policy.deduction(fills), policy.maxBonus()
	for i := range g.slots {
		slot := &g.slots[i]
		if slot.emptiness-deduction+leeway < found.score || slot.emptiness < fills {
			break
		}
		if slot.cpu < cpu || slot.memory < memory {
			continue
		}
		n := s.nodes.at(slot.at)
		score := slot.emptiness - deduction + policy.bonus(n)
		if score < found.score || score == found.score && !policy.prefersNode(slot.at, found.at) {
			continue
		}
		if s.admits(n, p) {
			found = choice{slot.at, score}
		}
	}
	return found
}

// admits reports whether the pod fits there and no rule of a pod forbids it.
func (s *scheduler) admits(n *node, p *leavingPod) bool {
	return n.fits(p.PodClass) && (!p.UsesHostname || s.groups.admits(n, p.podClass)) && n.antiAffinityAllows(p.podClass)
}
