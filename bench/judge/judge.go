// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math/rand/v2"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Rejection is a planned pod that the scheduler keeps from its planned node.
type Rejection struct {
	Pod  cluster.PodRef
	Node string
	// Plugin is the filter that refused; Plan when the plan itself is invalid.
	Plugin string
	Reason string
}

// Plan stands for a plugin in rejections that need no scheduler: missing pods and nodes, nodes
// that take no pods.
const Plan = "Plan"

// String is the rejection in one line.
func (r Rejection) String() string {
	return fmt.Sprintf("%s on %s: %s: %s", r.Pod.Name, r.Node, r.Plugin, r.Reason)
}

// Replay judges the plan with every launch as its first offering and every
// volume provisioned already. No rejections means that the plan is right.
func Replay(s *enginetest.Script, p schedule.Plan) []Rejection {
	return newReplay(s, p, options{choose: firstOffering}).rejections()
}

// ReplayAny judges the plan with every launch as any of its offerings: a
// launch falls back when its first offering is out of stock. Some of the volumes that
// only one pending pod mounts are not provisioned yet.
func ReplayAny(s *enginetest.Script, p schedule.Plan, seed uint64) []Rejection {
	r := rand.New(rand.NewPCG(seed, 1))
	return newReplay(s, p, options{
		choose: func(l schedule.Launch) offering.Ref { return l.Offerings[r.IntN(len(l.Offerings))] },
		make:   func() bool { return r.IntN(2) == 0 },
	}).rejections()
}

// options are the choices that a plan leaves open.
type options struct {
	choose func(schedule.Launch) offering.Ref
	// make reports whether the next volume that only one pending pod mounts is still to
	// be provisioned; nil: all volumes exist.
	make func() bool
}

func firstOffering(l schedule.Launch) offering.Ref { return l.Offerings[0] }

// Miss is a pod that the plan left out although a node would take it.
type Miss struct {
	Pod  cluster.PodRef
	Node string
}

// String is the miss in one line.
func (m Miss) String() string { return fmt.Sprintf("%s would fit on %s", m.Pod.Name, m.Node) }

// Misses lists the pods that the plan did not place although a node that exists
// would take them as things stand, and still would after everything planned is in
// place. Pods of leaving nodes, refused and virtual ones are not looked at.
func Misses(s *enginetest.Script, p schedule.Plan) []Miss {
	h := newReplay(s, p, options{choose: firstOffering})
	before, after := h.cluster.scheduler(), h.cluster.scheduler()
	defer before.Close()
	defer after.Close()
	h.cluster.run(after, h.cluster.orders()[0], now)
	var out []Miss
	for _, u := range p.Unplaced {
		for _, ref := range u.Pods {
			if node := h.missed(ref, before, after); node != "" {
				out = append(out, Miss{Pod: ref, Node: node})
			}
		}
	}
	return out
}

func (h *replay) missed(ref cluster.PodRef, before, after *Scheduler) string {
	spec := h.specs[ref.UID]
	if spec == nil || spec.Node != "" || spec.Refused != "" || spec.Virtual {
		return ""
	}
	pod := h.objects.pod(*spec)
	for _, n := range h.script.Nodes {
		if n.MarkedForDeletion || n.TakesNoPods {
			continue
		}
		if before.Refuses(pod, nodeName(n)) == nil && after.Refuses(pod, nodeName(n)) == nil {
			return nodeName(n)
		}
	}
	return ""
}
