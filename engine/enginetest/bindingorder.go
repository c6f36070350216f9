// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// BindingOrder is a sequence in which kube-scheduler could bind all planned pods to their places,
// with every launch as its first offering, as far as Check finds one. It is empty when there is
// none, or when the places are wrong in other ways. Launches may have fewer offerings than the plan
// that Solve made: neither minValues nor what a launch says about other offerings matters.
func BindingOrder(s *Script, p schedule.Plan) []cluster.PodRef {
	c := &checker{Script: s, plan: p, pods: map[string]int{}, seen: map[string]int{}}
	c.build()
	for _, n := range p.Nominations {
		c.nomination(n)
	}
	for i, l := range p.Launches {
		c.launch(i, l)
	}
	if len(c.errs) > 0 || c.cluster.replay() != "" {
		return nil
	}
	var out []cluster.PodRef
	for _, i := range c.cluster.bindingOrder {
		out = append(out, c.cluster.pods[i].PodRef)
	}
	return out
}
