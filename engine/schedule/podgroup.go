// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// podGroup is a pod class with the pods still to be placed. Pods that have dropped a
// preference which others of their class still require are a group of their own.
type podGroup struct {
	class            *cluster.PodClass
	shape            *cluster.PodShape // the class's, narrowed by the preferences that are held
	pods             []cluster.PodRef  // the class's pods that are in this group
	held             heldPreferences
	placed           int // pods that have a node, existing or planned
	allotted         int // pods in allotments that nodes are to be launched for
	nodeRules        nodeRules
	domainKeys       []*constraint.Key // of its rules and domain counts; no hostname
	domainRules      []domainRule
	domainIncrements []domainIncrements
	spreadFilters    []*spreadFilter
	cells            []*cell    // where assignGroup last looked for places
	waits            *claimWait // nil unless the pods get no place because of their claims
}

// excluded reports whether the pods of the group get no place, wherever there is room.
func (g *podGroup) excluded() bool { return g.class.Refused != "" || g.waits != nil }

// unassigned is how many pods are neither placed nor in an allotment.
func (g *podGroup) unassigned() int { return len(g.pods) - g.placed - g.allotted }

// take hands out the next n pods.
func (g *podGroup) take(n int) []cluster.PodRef {
	pods := g.pods[g.placed : g.placed+n]
	g.placed += n
	return pods
}

func newPodGroup(c *cluster.PodClass, pods []cluster.PodRef, held heldPreferences) *podGroup {
	return &podGroup{class: c, shape: c.Requiring(held.terms, held.avoidsSoftTaints), pods: pods, held: held}
}
