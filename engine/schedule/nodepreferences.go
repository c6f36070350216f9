// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// nodePreferences is which classes prefer some nodes to others.
type nodePreferences struct {
	classes map[*cluster.PodClass]bool
	// preferredFirst is set when nodes that meet more preferences are filled first.
	preferredFirst bool
}

// keys adds the labels of the class's node preferences to the labels by which it distinguishes
// nodes.
func (p *nodePreferences) keys(keys []*constraint.Key, c *cluster.PodClass) []*constraint.Key {
	if !p.classes[c] {
		return keys
	}
	keys = slices.Clone(keys)
	for _, t := range c.Preferred {
		for _, q := range t.Term {
			keys = append(keys, q.Key)
		}
	}
	return keys
}

// accepting lists the groups of nodes that accept the pod group, in the order in which its pods
// fill them: groups that meet more of the node preferences first, as that costs nothing.
// Preferences for a hostname are not considered.
func (p *nodePreferences) accepting(g *podGroup, x *cluster.NodeIndex) []int32 {
	groups := x.Accepting(g.shape)
	if !p.preferredFirst || len(groups) < 2 || !p.classes[g.class] {
		return groups
	}
	score := make(map[int32]int, len(groups))
	for _, nodeGroup := range groups {
		score[nodeGroup] = metWeight(g.class, x.Groups[nodeGroup].First)
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b int32) int { return cmp.Compare(score[b], score[a]) })
	return groups
}

// metWeight sums up the weights of the class's node preferences that the node meets.
func metWeight(c *cluster.PodClass, node *cluster.NodeInfo) int {
	sum := 0
	for _, t := range c.Preferred {
		if !t.UsesHostname() && node.Matches(t.Term) {
			sum += int(t.Weight)
		}
	}
	if c.LacksSoftToleration(node.Taints) {
		sum -= defaultWeight
	}
	return sum
}
