// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Unbound lets kube-scheduler bind pods as the nodes arrive, one group after the other, and returns
// those that it leaves pending. A pod goes to the node that the plan has for it, or, while that one is
// not there or refuses it, to any other that takes it. Pods are tried in the order of the list, again
// and again, until none is bound; the moving ones after the last arrival. Terminating pods stay.
func (c *Cluster) Unbound(pods []*corev1.Pod, arrivals [][]string) map[types.UID]bool {
	planned := map[types.UID]string{}
	for _, p := range c.Placed {
		planned[p.Pod.UID] = p.Node
	}
	s := newScheduler(c.Others)
	defer s.Close()
	waiting := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return c.Moving[p.UID] })
	var there []string
	for _, names := range arrivals {
		for _, name := range names {
			c.arrive(s, name)
			there = append(there, name)
		}
		waiting = s.bindSome(waiting, planned, there)
	}
	c.drain(s)
	for _, p := range pods {
		if c.Moving[p.UID] {
			waiting = append(waiting, p)
		}
	}
	out := map[types.UID]bool{}
	for _, p := range s.bindSome(waiting, planned, there) {
		out[p.UID] = true
	}
	return out
}

// arrive adds the node, with the pods that run there and those that DaemonSets start.
func (c *Cluster) arrive(s *Scheduler, name string) {
	for _, n := range c.Nodes {
		if n.Name == name {
			s.AddNode(n)
		}
	}
	for _, p := range c.Bound {
		if p.Spec.NodeName == name {
			s.bind(p, name)
		}
	}
	for _, d := range c.Daemons {
		if d.Node == name {
			s.Start(d)
		}
	}
	if slices.Contains(c.Starting, name) {
		s.untaint(name, corev1.TaintNodeNotReady)
	}
}

// bindSome binds what some node takes, until all others are refused everywhere. It returns those.
func (s *Scheduler) bindSome(waiting []*corev1.Pod, planned map[types.UID]string, nodes []string) []*corev1.Pod {
	for {
		before := len(waiting)
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(p *corev1.Pod) bool {
			for _, name := range append([]string{planned[p.UID]}, nodes...) {
				if s.hasNode(name) && s.Refuses(p, name) == nil {
					s.bind(p, name)
					return true
				}
			}
			return false
		})
		if len(waiting) == before {
			return waiting
		}
	}
}
